//! Reads a reply's body with a limit, and decompresses it with the same limit. It must not interpret it.

use std::io::Read as _;

use bytes::{Bytes, BytesMut};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::failure::SendError;

/// Reads the whole body of a reply of `host`.
///
/// # Errors
/// `TooLarge` if it has more than `max_bytes`, also after decompression. `Uncertain` if it is not complete, or
/// compressed in an unknown way: the request was received.
pub(super) async fn read(
    host: &str,
    response: &mut reqwest::Response,
    max_bytes: u64,
) -> Result<Bytes, SendError> {
    let status = response.status();
    let too_large = |size: Option<u64>| {
        let message = match size {
            Some(size) => format!("the reply of {host} has {size} bytes, the limit is {max_bytes}"),
            None => format!("the reply of {host} is larger than {max_bytes} bytes"),
        };
        SendError::TooLarge { status, size, message }
    };
    // The stated length may be false. It saves the transfer of a body that is too large anyway.
    let stated = response.content_length();
    if stated.is_some_and(|length| length > max_bytes) {
        return Err(too_large(stated));
    }
    let mut body = BytesMut::new();
    loop {
        let chunk = response.chunk().await.map_err(|error| {
            SendError::Uncertain(match error.is_timeout() {
                true => format!("the reply of {host} did not end in time"),
                false => format!("the reply of {host} is not complete"),
            })
        })?;
        let Some(chunk) = chunk else { break };
        if (body.len() + chunk.len()) as u64 > max_bytes {
            return Err(too_large(None));
        }
        body.extend_from_slice(&chunk);
    }
    match decompress(response.headers(), body.freeze(), max_bytes) {
        Ok(Some(body)) => Ok(body),
        Ok(None) => Err(too_large(None)),
        Err(why) => Err(SendError::Uncertain(format!("the reply of {host} {why}"))),
    }
}

/// Decompresses a body. `None` if the result is too large. Requests ask for no compression, but stored objects
/// may have one of their own.
fn decompress(headers: &HeaderMap, body: Bytes, max_bytes: u64) -> Result<Option<Bytes>, String> {
    let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let encoding = encoding.trim().to_ascii_lowercase();
    if body.is_empty() {
        return Ok(Some(body));
    }
    let limit = max_bytes.saturating_add(1);
    let mut plain = Vec::new();
    let result = match encoding.as_str() {
        "" | "identity" => return Ok(Some(body)),
        "gzip" | "x-gzip" => MultiGzDecoder::new(&body[..]).take(limit).read_to_end(&mut plain),
        "deflate" => ZlibDecoder::new(&body[..]).take(limit).read_to_end(&mut plain),
        _ => return Err(format!("has the unknown encoding {:?}", taskbridge_sdk::short_line(&encoding, 40))),
    };
    match result {
        Ok(_) if plain.len() as u64 > max_bytes => Ok(None),
        Ok(_) => Ok(Some(plain.into())),
        Err(_) => Err(format!("is not valid {encoding}")),
    }
}
