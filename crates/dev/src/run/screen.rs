//! What a newcomer reads while the platform starts.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use super::Wish;
use crate::platform::Platform;

pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more; the platform runs on.
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

pub(super) fn done(what: &str, text: &str, since: Instant) {
    say(&format!(
        "  ✓ {what:<9} {text:<58} {:.1}s",
        since.elapsed().as_secs_f64()
    ));
}

/// `2.00 USD`, `0.125 USD`: two decimals, and more where they say something, as everywhere else.
pub(super) fn price_of(micro: u64, currency: &str) -> String {
    let decimals = format!("{:06}", micro % 1_000_000);
    let (cents, rest) = decimals.split_at(2);
    format!("{}.{cents}{} {currency}", micro / 1_000_000, rest.trim_end_matches('0'))
}

pub(super) fn ready(wish: &Wish, platform: &Platform, began: Instant) {
    let gpuaas = wish.exe.with_file_name("gpuaas");
    let gpuaas = shorter(&gpuaas);
    say(&format!(
        "Ready in {:.1}s  API at {}",
        began.elapsed().as_secs_f64(),
        platform.public_urls[0]
    ));
    // Pasted, both lines must reach this state and no other.
    let (before, place) = if wish.state_dir == crate::state::default_dir() {
        (String::new(), String::new())
    } else {
        let dir = wish.state_dir.display();
        (format!("GPUAAS_DEV_STATE={dir} "), format!(" --state {dir}"))
    };
    say(&format!(
        "Try   {before}{gpuaas} allocation create --sku {} --wait",
        crate::demo::SKU
    ));
    say(&format!(
        "Stop  Ctrl-C, state is kept · Reset  {}{place} reset · Logs  {}",
        shorter(&wish.exe),
        wish.state_dir.join("log").display()
    ));
}

/// Relative to where the person is, if that is shorter.
fn shorter(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned))
        .unwrap_or_else(|| path.to_owned())
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::price_of;

    #[test]
    fn a_price_is_shown_whole() {
        for (micro, text) in [(2_000_000, "2.00 USD"), (125_000, "0.125 USD"), (1, "0.000001 USD")] {
            assert_eq!(price_of(micro, "USD"), text);
        }
    }
}
