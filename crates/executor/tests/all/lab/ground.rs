//! The ground: directories that hide the machine's own, a switch, DHCP and DNS, and what runs VMs.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use host::real::{MachineSettings, NetworkSettings};
use rustix::mount::{MountFlags, mount};

use super::{program, run};

/// Everything that the slices of a test leave is below it.
pub(crate) const ROOT: &str = "/mnt/lab";
pub(crate) const BRIDGE: &str = "br-slice";
pub(crate) const GATEWAY: &str = "10.77.0.1";

pub(crate) struct Ground {
    pub(crate) network: NetworkSettings,
    pub(crate) machines: MachineSettings,
}

impl Ground {
    pub(crate) fn prepare() -> Self {
        for dir in ["/mnt", "/run"] {
            tmpfs(dir);
        }
        fs::create_dir_all(format!("{ROOT}/dev/disk/by-id")).expect("a directory");
        run("ip", &["link", "set", "lo", "up"]);
        let ground = Self::known();
        fs::create_dir_all(&ground.network.hosts_dir).expect("a directory");
        ground.switch();
        ground.dnsmasq();
        ground
    }

    /// Where everything is, once it is prepared.
    pub(crate) fn known() -> Self {
        let network = NetworkSettings {
            reachable: Vec::new(),
            switch_dir: "/run/openvswitch".into(),
            hosts_dir: format!("{ROOT}/hosts").into(),
        };
        let machines = MachineSettings {
            uri: "qemu+unix:///system?socket=/run/libvirt/libvirt-sock".to_owned(),
            disks_dir: format!("{ROOT}/dev/disk/by-id").into(),
            emulated: true,
        };
        Self { network, machines }
    }

    /// Outside the kernel: not every kernel has the module.
    fn switch(&self) {
        let dir = "/run/openvswitch";
        fs::create_dir_all(dir).expect("a directory");
        let (database, socket) = (format!("{dir}/conf.db"), format!("unix:{dir}/db.sock"));
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run("ovsdb-tool", &["create", &database, schema]);
        let remote = format!("--remote=p{socket}");
        run(
            "ovsdb-server",
            &[&database, &remote, "--pidfile", "--detach", "--no-chdir"],
        );
        run("ovs-vsctl", &["--no-wait", "init"]);
        // It writes to whatever it has inherited, and is not waited for.
        let mut daemon = program("ovs-vswitchd");
        daemon.args([&socket, "--pidfile", "--detach", "--no-chdir"]);
        daemon
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        assert!(daemon.status().expect("it starts").success());
        let userspace = ["--", "set", "bridge", BRIDGE, "datapath_type=netdev"];
        run(
            "ovs-vsctl",
            &[&["--timeout=20", "add-br", BRIDGE], &userspace[..]].concat(),
        );
        run("ip", &["addr", "add", &format!("{GATEWAY}/24"), "dev", BRIDGE]);
        run("ip", &["link", "set", BRIDGE, "up"]);
    }

    fn dnsmasq(&self) {
        let hosts = format!("--dhcp-hostsdir={}", self.network.hosts_dir.display());
        let interface = format!("--interface={BRIDGE}");
        let args = [
            "--conf-file=/dev/null",
            &interface,
            "--bind-interfaces",
            "--except-interface=lo",
            "--no-resolv",
            "--no-hosts",
            "--address=/probe.test/192.0.2.7",
            "--dhcp-range=10.77.0.0,static,255.255.255.0,1h",
            &hosts,
            "--dhcp-leasefile=/run/leases",
            "--pid-file=/run/dnsmasq.pid",
            "--user=root",
            "--log-facility=/run/dnsmasq.log",
        ];
        run("dnsmasq", &args);
    }

    /// Only where VMs are wanted: its first start looks at every emulator there is.
    pub(crate) fn libvirt(&self) {
        for dir in [
            "/etc/libvirt",
            "/var/lib/libvirt",
            "/var/cache/libvirt",
            "/var/log/libvirt",
        ] {
            tmpfs(dir);
        }
        let daemon = "auth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\novs_timeout = 30\n";
        fs::write("/etc/libvirt/libvirtd.conf", daemon).expect("written");
        // No users, cgroups or namespaces of its own: the lab is inside all of them already.
        let qemu = "user = \"root\"\ngroup = \"root\"\ndynamic_ownership = 0\nremember_owner = 0\n\
            security_driver = \"none\"\nnamespaces = []\ncgroup_controllers = []\n";
        fs::write("/etc/libvirt/qemu.conf", qemu).expect("written");
        fs::create_dir_all("/run/libvirt").expect("a directory");
        run("virtlogd", &["-d", "-p", "/run/virtlogd.pid"]);
        run(
            "libvirtd",
            &["-d", "-p", "/run/libvirtd.pid", "-f", "/etc/libvirt/libvirtd.conf"],
        );
        let until = Instant::now() + Duration::from_secs(90);
        let answers = || {
            let asked = program("virsh").args(["-c", &self.machines.uri, "version"]).output();
            asked.is_ok_and(|asked| asked.status.success())
        };
        while !answers() {
            assert!(Instant::now() < until, "libvirt never answers");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

fn tmpfs(dir: &str) {
    assert!(Path::new(dir).exists(), "{dir}");
    mount("tmpfs", dir, "tmpfs", MountFlags::empty(), None).unwrap_or_else(|error| panic!("{dir}: {error}"));
}
