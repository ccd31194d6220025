// Answers every GET after some work: node server.js PORT.
const { createHash } = require("node:crypto");
const { createServer } = require("node:http");

const server = createServer((_, answer) => {
  let sum = Buffer.alloc(1024);
  for (let round = 0; round < 50; round++) sum = createHash("sha256").update(sum).digest();
  answer.setHeader("Content-Length", 64);
  answer.end(sum.toString("hex"));
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.argv[2]), "127.0.0.1");
