//! Where the pieces of an image come from: the control plane, or one https host that local policy names. Its address is
//! looked up once and pinned; one in a private network is refused unless policy names that address, too. A redirection
//! is an answer like any other wrong one. Nothing that a stranger answers is repeated in an error.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use http::header::{HeaderValue, RANGE};
use model::digest::Sha256;
use model::signal::Code;
use model::socket::WantedImage;
use model::task::vm_provision::https_host;
use wire::http::{Client, ErrorKind};

use super::Failed;
use crate::api::{Api, CallError};
use crate::node::Node;

/// What a foreign host is asked for at once.
const PIECE: usize = 2 << 20;
/// A piece that takes longer has to be asked for again; and a foreign one is whole, so nothing trickles in for ever.
const PIECE_WITHIN: Duration = Duration::from_secs(60);
const BUNDLES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

pub(super) enum Source<'a> {
    Control(&'a Api),
    Host { client: Box<Client>, path: String },
}

/// Why a piece did not come.
pub(super) enum Missed {
    /// It may come yet.
    Again(String),
    Never(Failed),
}

impl<'a> Source<'a> {
    pub(super) async fn of(node: &'a Node, wanted: &WantedImage) -> Result<Self, Missed> {
        match &wanted.url {
            None => Ok(Self::Control(&node.api)),
            Some(url) => host(url, &wanted.hosts, node.image_ca_file.as_deref()).await,
        }
    }

    /// Some bytes of the image from here on; never none.
    pub(super) async fn piece(&self, sha256: &Sha256, offset: u64, left: u64) -> Result<Vec<u8>, Missed> {
        let bytes = match self {
            Self::Control(api) => api.image(sha256, offset, PIECE_WITHIN).await.map_err(missed)?,
            Self::Host { client, path } => foreign(client, path, offset, left).await?,
        };
        match bytes.len() as u64 {
            0 => Err(Missed::Again("empty".to_owned())),
            long if long > left => Err(refused("it is longer than what was signed")),
            _ => Ok(bytes),
        }
    }
}

fn missed(error: CallError) -> Missed {
    match &error {
        CallError::Refused {
            code: Some(code @ Code::ImageNotListed),
            ..
        } => Missed::Never(Failed::new(*code, "the control plane lists it no longer")),
        CallError::Refused { .. } | CallError::Transport(_) => Missed::Again(error.word()),
    }
}

async fn host<'a>(url: &str, hosts: &[String], ca_file: Option<&Path>) -> Result<Source<'a>, Missed> {
    let host = https_host(url).ok_or_else(|| refused("not an https address"))?;
    if !hosts.iter().any(|allowed| allowed == host) {
        return Err(refused("local policy does not name its host"));
    }
    let at = if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:443")
    };
    let found = tokio::net::lookup_host(&at).await;
    let address = found.ok().and_then(|mut found| found.next());
    let address: SocketAddr = address.ok_or_else(|| Missed::Again("dns_failed".to_owned()))?;
    let ip = address.ip();
    if !is_public(ip) && !hosts.iter().any(|allowed| *allowed == ip.to_string()) {
        return Err(refused("its name leads into a private network"));
    }
    let bundles = BUNDLES.map(Path::new);
    let mut bundles = match &ca_file {
        Some(file) => std::slice::from_ref(file).iter(),
        None => bundles.iter(),
    };
    let roots = bundles.find_map(|path| std::fs::read_to_string(path).ok());
    let roots = roots.ok_or_else(|| refused("this system has no CA bundle"))?;
    let base = format!("https://{host}");
    let path = url.strip_prefix(&base).unwrap_or_default().to_owned();
    let built = || -> Option<Client> {
        let tls = wire::tls::client_config(None, &wire::pem::certificates(&roots).ok()?).ok()?;
        let builder = Client::builder(&base).ok()?.resolve(Some(&address.to_string())).ok()?;
        Some(builder.tls(tls).max_body(PIECE).timeout(PIECE_WITHIN).build())
    };
    let client = built()
        .map(Box::new)
        .ok_or_else(|| refused("its address cannot be used"))?;
    Ok(Source::Host { client, path })
}

async fn foreign(client: &Client, path: &str, offset: u64, left: u64) -> Result<Vec<u8>, Missed> {
    let length = left.min(PIECE as u64);
    let last = offset + length - 1;
    let range = HeaderValue::try_from(format!("bytes={offset}-{last}")).map_err(|_| refused("no range"))?;
    let answer = client.get(path).header(RANGE, range).send_foreign().await;
    let answer = answer.map_err(|error| match error.kind {
        ErrorKind::BodyTooLarge => refused("its host does not serve pieces"),
        kind => Missed::Again(kind.to_string()),
    })?;
    match answer.status.as_u16() {
        206 if (answer.body.len() as u64) < length => Err(refused("its host serves less than it was asked for")),
        206 => Ok(answer.body.to_vec()),
        200 if offset == 0 && answer.body.len() as u64 == left => Ok(answer.body.to_vec()),
        429 | 500..=599 => Err(Missed::Again(format!("http_{}", answer.status.as_u16()))),
        status => Err(refused(&format!("its host answers with status {status}"))),
    }
}

fn refused(why: &str) -> Missed {
    Missed::Never(Failed::new(Code::ImageSourceRefused, format!("image_url: {why}")))
}

/// Outside of everything that a network may keep to itself.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let special = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && (b == 18 || b == 19));
            !(v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || shared || special)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(IpAddr::V4(v4)),
            // Global unicast, but for the ways in which IPv4 addresses are wrapped up in it.
            None => {
                let [first, second, ..] = v6.segments();
                (first & 0xe000) == 0x2000 && first != 0x2002 && !(first == 0x2001 && second == 0)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn only_public_addresses_are_public() {
        for ip in ["1.1.1.1", "93.184.216.34", "2606:4700::1111"] {
            assert!(is_public(ip.parse().expect("an address")), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:169.254.169.254",
            "2002:7f00:1::",
            "2001:0::1",
            "64:ff9b::a00:1",
        ] {
            assert!(!is_public(ip.parse().expect("an address")), "{ip}");
        }
    }
}
