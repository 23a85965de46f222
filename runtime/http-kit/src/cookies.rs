//! Cookies: those of a request, and the attributes of those that this server sets.
//!
//! Values are neither encoded nor decoded: each caller has a format without separators of cookies.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use cookie::time::Duration;
use cookie::{Cookie, SameSite};
use perpend_config::Config;

/// The values of all cookies with a name, in the order of the request. There may be several: a sibling host can set a
/// cookie of the same name.
pub fn cookie_values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lists = headers.get_all(COOKIE).iter().filter_map(|list| list.to_str().ok());
    let cookies = lists.flat_map(|list| Cookie::split_parse(list).flatten());
    cookies.filter(move |cookie| cookie.name() == name).filter_map(|cookie| cookie.value_raw())
}

/// A `Set-Cookie` value: for all paths, hidden from scripts, not sent from other sites except by links, and sent over
/// HTTPS only if the public URL is one. A lifetime of 0 seconds deletes the cookie.
#[must_use]
pub fn set_cookie(config: &Config, name: &str, value: &str, seconds: i64) -> String {
    let public_url = config.public_url.as_deref();
    Cookie::build((name, value))
        .path("/")
        .max_age(Duration::seconds(seconds))
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(public_url.is_some_and(|url| url.starts_with("https:")))
        .to_string()
}

/// Adds the result of [`set_cookie`] to a response.
pub fn append_cookie(response: &mut Response, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cookies_of_a_name_are_found_in_all_headers() {
        let mut headers = HeaderMap::new();
        for list in ["a=1; b = 2;;c", "ab=3;a=x=<y>&z; =4", "a="] {
            headers.append(COOKIE, HeaderValue::from_static(list));
        }
        let values = |name| cookie_values(&headers, name).collect::<Vec<_>>();
        assert_eq!(values("a"), ["1", "x=<y>&z", ""]);
        assert_eq!(values("b"), ["2"]);
        assert!(values("c").is_empty() && values("").is_empty());
    }

    #[test]
    fn a_cookie_is_secure_if_the_public_url_is_https() {
        let mut config = Config::defaults().unwrap();
        let attributes = |config: &Config| {
            let value = set_cookie(config, "name", "a.b~c", 60);
            let mut parts: Vec<_> = value.split("; ").map(str::to_owned).collect();
            parts[1..].sort();
            parts.join("; ")
        };
        let without = "name=a.b~c; HttpOnly; Max-Age=60; Path=/; SameSite=Lax";
        assert_eq!(attributes(&config), without);
        config.public_url = Some("https://perpend.example".to_owned());
        assert_eq!(attributes(&config), format!("{without}; Secure"));
    }
}
