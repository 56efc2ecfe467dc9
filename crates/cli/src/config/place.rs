//! Places: directories by the XDG rules, and URLs. Refuses plain HTTP to anything but this machine, because a token
//! would travel in the clear.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;

use super::Sourced;
use crate::failure::Failure;

pub(super) fn under_home(vars: &BTreeMap<String, String>, xdg: &str, default: &str) -> Option<PathBuf> {
    // The XDG rules tell to ignore a relative path.
    let named = vars.get(xdg).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(PathBuf::from(vars.get("HOME").filter(|home| !home.is_empty())?).join(default)))
}

pub(super) fn config_dir(vars: &BTreeMap<String, String>) -> Option<PathBuf> {
    Some(under_home(vars, "XDG_CONFIG_HOME", ".config")?.join("gpuaas"))
}

pub(super) fn check_url(url: &Sourced<String>) -> Result<(), Failure> {
    let Sourced { value, from } = url;
    let uri: Uri = value
        .parse()
        .map_err(|_| Failure::config(format!("not a URL: {value:?} (from {from})")))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => Ok(()),
        (Some("http"), Some(host)) if is_this_machine(host) => Ok(()),
        (Some("http"), Some(_)) => Err(Failure::config(format!(
            "{value} would carry your token in the clear (from {from}); plain http is for this machine only"
        ))
        .hint("use https://")),
        _ => Err(Failure::config(format!("not an http(s) URL: {value:?} (from {from})"))),
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The same scheme, host and port, whatever the spelling.
pub(super) fn same_server(a: &str, b: &str) -> bool {
    let parts = |text: &str| {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?.to_owned();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Some((scheme, uri.host()?.to_ascii_lowercase(), port))
    };
    parts(a).is_some_and(|a| Some(a) == parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    #[test]
    fn a_token_never_travels_in_the_clear() {
        let check = |url: &str| {
            check_url(&Sourced {
                value: url.to_owned(),
                from: Source::Flag,
            })
            .is_ok()
        };
        for url in [
            "https://gpu.example",
            "http://127.0.0.1:8080",
            "http://[::1]:8080/",
            "http://localhost",
        ] {
            assert!(check(url), "{url}");
        }
        for url in [
            "http://gpu.example",
            "http://127.0.0.1.example",
            "http://10.0.0.1",
            "ftp://x",
            "gpu.example",
            "",
            "https://",
        ] {
            assert!(!check(url), "{url}");
        }
    }

    #[test]
    fn servers_are_compared_by_what_they_are() {
        assert!(same_server("https://Gpu.example/", "https://gpu.example:443"));
        assert!(!same_server("https://gpu.example", "https://gpu.example:8443"));
        assert!(!same_server("http://gpu.example", "https://gpu.example"));
        assert!(!same_server("x", "x"));
    }
}
