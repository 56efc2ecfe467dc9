//! Browsers that are signed in. The cookie holds 256 random bits of which we keep the digest; a session ends when nobody
//! used it for a while, after its whole life, when its person leaves or is disabled, whichever comes first. A stream that
//! is open, or opened again, is no use of it.

use http::{HeaderMap, HeaderValue, Method, header};
use model::id::{SessionId, UserId};
use model::signal::Code;
use sqlx::FromRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::token::TokenSecret;
use crate::app::App;
use crate::config::Config;
use crate::db::Db;
use crate::http::ApiError;
use crate::tx::Actor;

/// Writing it on every request would make a read a write.
const USED_EVERY: time::Duration = time::Duration::minutes(1);
/// How long a session is remembered after its end.
const KEEP_S: i64 = 7 * 86_400;

#[derive(Clone, Debug, FromRow)]
pub(super) struct SessionRow {
    pub(super) id: Uuid,
    pub(super) user_id: Uuid,
    pub(super) user_name: String,
    pub(super) user_roles: Vec<String>,
    pub(super) user_disabled_at: Option<OffsetDateTime>,
    pub(super) last_used_at: OffsetDateTime,
    pub(super) ends_at: OffsetDateTime,
    pub(super) ended_at: Option<OffsetDateTime>,
}

/// A cookie of ours. On https its name binds it to this very host; on loopback there is no https.
pub fn cookie_name(config: &Config, purpose: &str) -> String {
    let prefix = if secure(config) { "__Host-" } else { "" };
    format!("{prefix}gpuaas_{purpose}")
}

fn secure(config: &Config) -> bool {
    config.public_url.starts_with("https://")
}

/// `Set-Cookie`: for this host, not for scripts, not for requests that other sites make. No life: until told otherwise.
pub fn set_cookie(config: &Config, purpose: &str, value: &str, life_s: Option<u64>) -> Option<HeaderValue> {
    let name = cookie_name(config, purpose);
    let secure = if secure(config) { "; Secure" } else { "" };
    let life = life_s.map(|s| format!("; Max-Age={s}")).unwrap_or_default();
    HeaderValue::from_str(&format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{life}")).ok()
}

/// The value of a cookie that came exactly once.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut found = all
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(other, _)| *other == name);
    let (first, second) = (found.next(), found.next());
    first.filter(|_| second.is_none()).map(|(_, value)| value)
}

pub(super) fn secret(config: &Config, headers: &HeaderMap) -> Option<TokenSecret> {
    cookie(headers, &cookie_name(config, "session"))?.parse().ok()
}

/// A browser sends its cookies whoever wrote the page. What changes something has to come from a page of ours.
pub fn same_origin(config: &Config, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let ours = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            let host = text("host").unwrap_or_default();
            let scheme = if secure(config) { "https" } else { "http" };
            origin == config.public_url.trim_end_matches('/') || origin == format!("{scheme}://{host}")
        }
        (None, None) => false,
    };
    if ours { Ok(()) } else { Err(Code::OriginRefused.into()) }
}

/// Begins a session; what it returns goes into the cookie and nowhere else.
pub async fn session_begin(app: &App, actor: &Actor, user: UserId) -> Result<TokenSecret, ApiError> {
    let (id, secret) = (SessionId::new(), TokenSecret::random());
    let mut change = app.db.change(actor, "session.begin", id).await?;
    let at = change.at();
    let life_s = i64::try_from(app.config.session_life_s).unwrap_or(i64::MAX / 4000);
    sqlx::query(
        "insert into browser_session (id, sha256, user_id, created_at, last_used_at, ends_at) values ($1, $2, $3, $4, $4, $5)",
    )
    .bind(id.uuid())
    .bind(secret.sha256().as_bytes().as_slice())
    .bind(user.uuid())
    .bind(OffsetDateTime::from(at))
    .bind(OffsetDateTime::from(at.plus_s(life_s)))
    .execute(change.conn())
    .await?;
    // Whoever comes often leaves the most behind, so whoever comes cleans up.
    sqlx::query("delete from browser_session where user_id = $1 and ends_at < $2")
        .bind(user.uuid())
        .bind(OffsetDateTime::from(at.plus_s(-KEEP_S)))
        .execute(change.conn())
        .await?;
    change.detail(serde_json::json!({ "user_id": user }));
    change.commit().await?;
    Ok(secret)
}

pub(super) async fn by_secret(db: &Db, secret: &TokenSecret) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as(
        "select s.id, s.user_id, u.name as user_name, u.platform_roles as user_roles, u.disabled_at as user_disabled_at,
                s.last_used_at, s.ends_at, s.ended_at
         from browser_session s join app_user u on u.id = s.user_id where s.sha256 = $1",
    )
    .bind(secret.sha256().as_bytes().as_slice())
    .fetch_optional(db.read())
    .await
}

impl SessionRow {
    pub(super) fn over(&self, config: &Config, now: OffsetDateTime) -> Option<Code> {
        let idle = time::Duration::seconds(i64::try_from(config.session_idle_s).unwrap_or(i64::MAX));
        if self.ended_at.is_some() || self.user_disabled_at.is_some() {
            Some(Code::TokenInvalid)
        } else if self.ends_at <= now || now - self.last_used_at >= idle {
            Some(Code::TokenExpired)
        } else {
            None
        }
    }

    pub(super) async fn mark_used(&self, db: &Db, now: OffsetDateTime) -> sqlx::Result<()> {
        if now - self.last_used_at < USED_EVERY {
            return Ok(());
        }
        sqlx::query("update browser_session set last_used_at = $2 where id = $1 and last_used_at < $2")
            .bind(self.id)
            .bind(now)
            .execute(db.bookkeeping())
            .await?;
        Ok(())
    }
}

/// From the next request on the cookie opens nothing. Leaving twice is leaving once.
pub async fn session_end(db: &Db, actor: &Actor, id: SessionId) -> Result<(), ApiError> {
    let mut change = db.change(actor, "session.end", id).await?;
    let at = OffsetDateTime::from(change.at());
    sqlx::query("update browser_session set ended_at = coalesce(ended_at, $2) where id = $1")
        .bind(id.uuid())
        .bind(at)
        .execute(change.conn())
        .await?;
    Ok(change.commit().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_changes_something_comes_from_a_page_of_ours() {
        let mut config = Config::defaults();
        config.public_url = "https://gpu.example".to_owned();
        let passes = |method: Method, pairs: &[(&'static str, &'static str)]| {
            same_origin(&config, &method, &headers(pairs)).is_ok()
        };
        assert!(passes(Method::GET, &[("sec-fetch-site", "cross-site")]));
        assert!(passes(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(passes(Method::POST, &[("origin", "https://gpu.example")]));
        assert!(passes(
            Method::DELETE,
            &[("origin", "https://other.example"), ("host", "other.example")]
        ));
        for bad in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", "https://gpu.example")],
            &[("sec-fetch-site", "none")],
            &[("origin", "null"), ("host", "gpu.example")],
            &[("origin", "http://gpu.example"), ("host", "gpu.example")],
            &[("origin", "https://evil.example"), ("host", "gpu.example")],
        ] {
            assert!(!passes(Method::POST, bad), "{bad:?}");
        }
    }

    #[test]
    fn a_cookie_counts_if_it_comes_once_and_is_bound_to_its_host() {
        let mut config = Config::defaults();
        config.public_url = "https://gpu.example".to_owned();
        let set = set_cookie(&config, "session", "x", Some(60)).expect("a header");
        assert_eq!(
            set.to_str().expect("text"),
            "__Host-gpuaas_session=x; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=60"
        );
        let name = cookie_name(&config, "session");
        assert_eq!(
            cookie(&headers(&[("cookie", "a=b; __Host-gpuaas_session=x")]), &name),
            Some("x")
        );
        for bad in [
            "gpuaas_session=x",
            "__Host-gpuaas_session=x; __Host-gpuaas_session=y",
            "a=__Host-gpuaas_session=x",
        ] {
            assert_eq!(cookie(&headers(&[("cookie", bad)]), &name), None, "{bad}");
        }
        config.public_url = "http://127.0.0.1:8080".to_owned();
        assert_eq!(cookie_name(&config, "session"), "gpuaas_session");
    }
}
