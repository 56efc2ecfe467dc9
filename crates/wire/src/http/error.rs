//! What went wrong between us and an answer, in the closed vocabulary of preflight where it has a word. Nobody has
//! to read an error's text to decide.

use std::error::Error as StdError;
use std::fmt;

use http::StatusCode;
use rustls::{AlertDescription, CertificateError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    UrlInvalid,
    DnsFailed,
    TcpTimeout,
    TcpRefused,
    ServerCertUntrusted,
    ServerCertExpired,
    ServerNameMismatch,
    /// The server refused our certificate: it is past its end.
    CertExpired,
    CertRevoked,
    /// The server refused our certificate for another reason.
    CertUntrusted,
    /// Connected, but no answer in time.
    Timeout,
    /// The connection ended before the answer did.
    Closed,
    /// Something answered, but not one of ours.
    NotGpuaas,
    /// Something before the platform slows us down or turns us away.
    EdgeRateLimited,
    BodyTooLarge,
    BodyMalformed,
}

impl ErrorKind {
    pub const ALL: &'static [ErrorKind] = &[
        Self::UrlInvalid,
        Self::DnsFailed,
        Self::TcpTimeout,
        Self::TcpRefused,
        Self::ServerCertUntrusted,
        Self::ServerCertExpired,
        Self::ServerNameMismatch,
        Self::CertExpired,
        Self::CertRevoked,
        Self::CertUntrusted,
        Self::Timeout,
        Self::Closed,
        Self::NotGpuaas,
        Self::EdgeRateLimited,
        Self::BodyTooLarge,
        Self::BodyMalformed,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UrlInvalid => "url_invalid",
            Self::DnsFailed => "dns_failed",
            Self::TcpTimeout => "tcp_timeout",
            Self::TcpRefused => "tcp_refused",
            Self::ServerCertUntrusted => "server_cert_untrusted",
            Self::ServerCertExpired => "server_cert_expired",
            Self::ServerNameMismatch => "server_name_mismatch",
            Self::CertExpired => "cert_expired",
            Self::CertRevoked => "cert_revoked",
            Self::CertUntrusted => "cert_untrusted",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::NotGpuaas => "not_gpuaas",
            Self::EdgeRateLimited => "edge_rate_limited",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyMalformed => "body_malformed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    pub kind: ErrorKind,
    /// What an edge asked us to wait, if it did.
    pub retry_after_s: Option<u64>,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            retry_after_s: None,
            source: source.into(),
        }
    }

    pub(super) fn url(text: &str) -> Self {
        Self::new(ErrorKind::UrlInvalid, format!("{text:?}"))
    }

    /// An answer without our header.
    pub(super) fn stranger(status: StatusCode, retry_after_s: Option<u64>) -> Self {
        let kind = match status.as_u16() {
            403 | 429 | 503 => ErrorKind::EdgeRateLimited,
            _ => ErrorKind::NotGpuaas,
        };
        Self {
            retry_after_s,
            ..Self::new(kind, format!("status {status} without gpuaas-service"))
        }
    }

    pub(super) fn from_tls(error: std::io::Error) -> Self {
        let kind = tls_cause(&error).map_or(ErrorKind::Closed, tls_kind);
        Self::new(kind, error)
    }

    pub(super) fn from_pool(error: hyper_util::client::legacy::Error) -> Self {
        // Our own connector's error comes back wrapped; its kind is the one that counts.
        if let Some(ours) = find::<Error>(&error) {
            return Self::new(ours.kind, error);
        }
        // A server that dislikes our certificate says so only after the handshake, in place of an answer.
        if let Some(cause) = tls_cause(&error) {
            return Self::new(tls_kind(cause), error);
        }
        let parse = find::<hyper::Error>(&error).is_some_and(hyper::Error::is_parse);
        Self::new(if parse { ErrorKind::NotGpuaas } else { ErrorKind::Closed }, error)
    }

    pub(super) fn from_body(error: Box<dyn StdError + Send + Sync>) -> Self {
        let too_large = error.is::<http_body_util::LengthLimitError>();
        Self::new(
            if too_large {
                ErrorKind::BodyTooLarge
            } else {
                ErrorKind::Closed
            },
            error,
        )
    }
}

/// The connection was over before the request was on it, and it is not known why.
pub(super) fn never_sent(error: &hyper_util::client::legacy::Error) -> bool {
    tls_cause(error).is_none() && find::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled)
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// rustls travels inside an `io::Error`, whose own `source` skips it.
fn tls_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    find::<rustls::Error>(error).or_else(|| {
        find::<std::io::Error>(error)
            .and_then(|io| io.get_ref())
            .and_then(|inner| find::<rustls::Error>(inner))
    })
}

fn tls_kind(error: &rustls::Error) -> ErrorKind {
    use CertificateError as C;
    match error {
        rustls::Error::InvalidCertificate(
            C::Expired | C::ExpiredContext { .. } | C::NotValidYet | C::NotValidYetContext { .. },
        ) => ErrorKind::ServerCertExpired,
        rustls::Error::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            ErrorKind::ServerNameMismatch
        }
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => ErrorKind::ServerCertUntrusted,
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => ErrorKind::CertExpired,
            AlertDescription::CertificateRevoked => ErrorKind::CertRevoked,
            AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => ErrorKind::CertUntrusted,
            _ => ErrorKind::NotGpuaas,
        },
        // It does not speak our TLS, or not TLS at all.
        _ => ErrorKind::NotGpuaas,
    }
}
