// Pods as a kubelet makes them, for tests: the pod's cgroups by the library that the kubelet uses, then calls of CRI.
//
// cri SOCKET FOLDER: does what standard input says, a command a line, and answers each with a line: "ok …" or "error …". Logs of
// the containers go to FOLDER/POD.log, as the kubelet has them written. Pods have one container, "main", of one image.
//
//	images                                       the images that are there
//	run POD [requests=750m] [limits=1] [labels=a=b,c=d] [annotations=a=b] [namespace=default] [memory=64] -- SCRIPT
//	resize POD [requests=…] [limits=…]           in place
//	again POD                                    the container has ended: the next one of its pod
//	state POD                                    of its container
//	id POD                                       the container's
//	cgroup POD                                   the pod's, below the mount
//	most POD SECONDS                             of a CPU, in thousandths, that it had over any second in so many
//	remove POD                                   container, pod and cgroup
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// As the kubelet's.
const limit = 2 * time.Minute

type node struct {
	folder  string
	runtime runtime.RuntimeServiceClient
	images  runtime.ImageServiceClient
	pods    map[string]*pod
}

func (n *node) do(ctx context.Context, line string) (string, error) {
	line, script, _ := strings.Cut(line, " -- ")
	words := strings.Fields(line)
	if len(words) == 1 && words[0] == "images" {
		return n.list(ctx)
	}
	if len(words) < 2 {
		return "", fmt.Errorf("%q: expected COMMAND POD", line)
	}
	command, name := words[0], words[1]
	options, rest := map[string]string{}, words[2:]
	if command == "most" {
		rest = nil
	}
	for _, word := range rest {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return "", fmt.Errorf("%q: expected KEY=VALUE", word)
		}
		options[key] = value
	}
	if command == "run" {
		return n.run(ctx, name, options, script)
	}
	p := n.pods[name]
	if p == nil {
		return "", fmt.Errorf("there is no pod %q", name)
	}
	switch command {
	case "resize":
		return n.resize(ctx, p, options)
	case "again":
		return n.start(ctx, p)
	case "state":
		return n.state(ctx, p)
	case "id":
		return p.container, nil
	case "cgroup":
		return p.cgroup(), nil
	case "most":
		seconds, err := strconv.Atoi(strings.Join(words[2:], ""))
		if err != nil {
			return "", err
		}
		return p.most(seconds)
	case "remove":
		return n.remove(ctx, p)
	}
	return "", fmt.Errorf("%q: unknown command", command)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cri SOCKET FOLDER")
		os.Exit(2)
	}
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	n := &node{
		folder:  os.Args[2],
		runtime: runtime.NewRuntimeServiceClient(connection),
		images:  runtime.NewImageServiceClient(connection),
		pods:    map[string]*pod{},
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		answer, err := n.do(ctx, lines.Text())
		cancel()
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		} else {
			answer = strings.TrimSpace("ok " + answer)
		}
		fmt.Println(answer)
	}
}
