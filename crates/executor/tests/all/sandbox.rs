//! The real program, trying what it forbids itself.

const EAFNOSUPPORT: &str = "97";

#[test]
fn neither_it_nor_its_children_can_open_an_ip_socket() {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_gpuaas-node-executor"));
    let output = program.arg("sandbox-check").output().expect("started");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for who in ["self", "child"] {
        for family in ["inet", "inet6", "packet", "vsock"] {
            assert!(said.contains(&format!("{who} {family} {EAFNOSUPPORT}\n")), "{said}");
        }
        for family in ["unix", "netlink"] {
            assert!(said.contains(&format!("{who} {family} open\n")), "{said}");
        }
    }
}

#[test]
fn it_says_what_it_can_do() {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_gpuaas-node-executor"));
    let output = program.arg("types").output().expect("started");
    let said = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    let compiled: Vec<&str> = model::task::TaskType::ALL
        .iter()
        .map(|task_type| task_type.as_str())
        .collect();
    assert_eq!(names, compiled);
}
