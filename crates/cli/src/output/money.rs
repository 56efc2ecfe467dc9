//! Money for people: a decimal amount of a currency, which the API counts in whole millionths of it.

const MICRO: u64 = 1_000_000;
const MOST_DECIMALS: usize = 6;

/// `2.00`, `0.125`: two decimals, and more where they say something.
pub(crate) fn amount(micro: u64) -> String {
    let decimals = format!("{:06}", micro % MICRO);
    let (cents, rest) = decimals.split_at(2);
    format!("{}.{cents}{}", micro / MICRO, rest.trim_end_matches('0'))
}

/// `2.00 USD/h`.
pub(crate) fn per_hour(micro: u64, currency: &str) -> String {
    format!("{} {currency}/h", amount(micro))
}

/// Millionths of what a person wrote. Nothing is rounded: a price is what was typed, or refused.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no amount; write 3, 3.00 or 0.125, with at most {MOST_DECIMALS} decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > MOST_DECIMALS {
        return Err(wrong());
    }
    let whole: Option<u64> = whole.parse().ok().and_then(|whole: u64| whole.checked_mul(MICRO));
    let micro = format!("{decimals:0<MOST_DECIMALS$}").parse().ok();
    whole
        .zip(micro)
        .and_then(|(whole, micro)| whole.checked_add(micro))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (text, micro, shown) in [
            ("3", 3_000_000, "3.00"),
            ("3.00", 3_000_000, "3.00"),
            ("0.125", 125_000, "0.125"),
            ("0", 0, "0.00"),
            ("12.5", 12_500_000, "12.50"),
            ("0.000001", 1, "0.000001"),
        ] {
            assert_eq!(parse(text), Ok(micro), "{text}");
            assert_eq!(amount(micro), shown);
        }
        for text in [
            "",
            ".",
            ".5",
            "3.",
            "-1",
            "+1",
            "1,5",
            "1e3",
            "0.0000001",
            "3 USD",
            "18446744073710",
            "३",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
