//! Media of any length, and `data:` addresses that contain unencoded markup.

use serde_json::{Value, json};

use crate::content::inline::{InlineMedium, take};
use crate::content::spans::spans;

/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==";
/// The beginning of a picture.
const SHORT: &str = "iVBORw0KGgo=";

/// The types of the media in a value.
fn types(mut value: Value) -> Vec<String> {
    let found = take(&mut value).found.into_iter();
    found.map(|found| found.content_type).collect()
}

#[test]
fn small_media_are_found_at_the_positions_of_each_shape() {
    for data in [PNG, SHORT] {
        for value in [
            json!({"role": "user", "images": [data]}),
            json!({"image": {"base64_image": data, "mime_type": "image/png"}}),
            json!({"image": {"base64_image": data, "mime_type": null}}),
            json!({"type": "IMAGE", "image": {"base64Data": data, "mimeType": "image/png"}}),
            json!({"type": "image", "data": data, "mimeType": "image/png"}),
        ] {
            assert_eq!(types(value.clone()), ["image/png"], "{value}");
            let found = InlineMedium::of(value, 0).unwrap();
            assert!(found.bytes.starts_with(b"\x89PNG"));
        }
    }
    let file = json!({"uri": "file:///a", "mimeType": "application/zip", "blob": "UEsDBAo="});
    assert_eq!(types(file), ["application/zip"]);
}

#[test]
fn small_media_in_text_are_detected_by_their_first_bytes() {
    assert_eq!(types(json!({"anything": format!("see {PNG}.")})), ["image/png"]);
    let gif = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    assert_eq!(types(json!([gif])), ["image/gif"]);
    for text in [
        "iVBORw0KGgo",
        "https://service1/Assets/static/images/Holiday2024/first",
        "//service1/Assets/static/images/Holiday2024/first/second",
        "0123456789abcdefABCDEF0123456789abcdefABCDEF0123456789",
    ] {
        assert_eq!(types(json!([text])), [""; 0], "{text}");
    }
    for value in [
        json!({"images": ["a.png", "cat", "//service/Cat1"]}),
        json!({"uri": "a", "blob": "words"}),
        json!({"mimeType": "text/plain", "blob": "words"}),
        json!({"type": "file", "mediaType": "application/pdf", "data": "file-6F2ksmvXxt4VdoqmHRw6kL"}),
        json!({"type": "base64", "media_type": "image/png", "data": "file_6F2ksmvXxt4VdoqmHRw6kL"}),
        json!({"type": "image", "mediaType": "image/png", "data": "cat"}),
        json!({"type": "audio", "mimeType": "audio/wav", "data": "hello/world"}),
    ] {
        assert_eq!(types(value.clone()), [""; 0], "{value}");
    }
}

#[test]
fn markup_in_an_address_is_a_medium_as_it_is() {
    for (address, data) in [
        (
            "data:image/svg+xml;utf8,<svg width=\"1\"><g a='b c'/></svg>",
            "<svg width=\"1\"><g a='b c'/></svg>",
        ),
        ("data:text/html,<script>alert(1)</script>", "<script>alert(1)</script>"),
        (
            "data:text/html,<!doctype html><p>a b</p><br><p>c</p>",
            "<!doctype html><p>a b</p><br><p>c</p>",
        ),
        ("data:text/html,<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("data:text/html,<u>", "<u>"),
        ("data:text/html,<p><pre>a</pre><p/>b<p>c</p></p>", "<p><pre>a</pre><p/>b<p>c</p></p>"),
        ("data:text/html,%3Cb%3Ea%3C/b%3E", "<b>a</b>"),
    ] {
        let text = format!("see <i>{address}</i> and <b>words</b>");
        let found = spans(&text);
        assert_eq!(found.len(), 1, "{address}");
        assert_eq!(&text[found[0].whole.clone()], address);
        let medium = InlineMedium::of(Value::String(text), 0).unwrap();
        assert_eq!(String::from_utf8(medium.bytes).unwrap(), data);
    }
    for text in ["see data:text/html,<b", "see data:text/plain,<b>a</b>", "see data:text/html,</b>"]
    {
        assert!(spans(text).is_empty(), "{text}");
    }
    // Elements without an end are not searched for without end.
    let many = "see data:text/html,<b>".repeat(100_000);
    assert!(spans(&many).len() > 1);
}
