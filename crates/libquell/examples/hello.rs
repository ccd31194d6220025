//! The least that a program that cooperates has.

fn main() {
    if quell::attach().is_err() {
        eprintln!("{}", quell::words());
    }
    let worker = quell::Worker::here().expect("there is a line for the first worker");
    for request in (0..3).take_while(|_| !worker.should_leave()) {
        let _request = worker.request();
        println!("request {request}");
    }
    println!("{} of {} CPUs", quell::cpus(), quell::cpus_most());
}
