//! The frames of [`crate::wire`], without blocking.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::wire::{Broken, HEAD, Kind, MAX_FRAME, frame, head, message, parse};

/// Reads one frame; `None` at an end between two. Not to be dropped half way and begun again.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<(Kind, Vec<u8>)>, Broken> {
    let mut start = [0; HEAD];
    let mut had = 0;
    while had < HEAD {
        let space = start.get_mut(had..).unwrap_or_default();
        match from.read(space).await? {
            0 if had == 0 => return Ok(None),
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            n => had += n,
        }
    }
    let (kind, length) = head(start)?;
    let mut content = vec![0; length];
    from.read_exact(&mut content).await?;
    Ok(Some((kind, content)))
}

/// Reads one message; `None` at an end.
pub(crate) async fn read_message<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, Broken> {
    match read(from).await? {
        None => Ok(None),
        Some((Kind::Message, content)) => parse(&content).map(Some),
        Some((kind, _)) => Err(Broken::Order(kind)),
    }
}

/// Writes one message.
pub(crate) async fn write_message(
    to: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> Result<(), Broken> {
    Ok(to.write_all(&message(value)?).await?)
}

/// Writes a message, a body in pieces behind it, and its end: all at once, where it is short.
pub(crate) async fn write_call(
    to: &mut (impl AsyncWrite + Unpin),
    first: &impl Serialize,
    body: &[u8],
) -> Result<(), Broken> {
    let mut bytes = message(first)?;
    for piece in body.chunks(MAX_FRAME) {
        if bytes.len() + piece.len() > MAX_FRAME {
            to.write_all(&bytes).await?;
            bytes.clear();
        }
        bytes.extend_from_slice(&frame(Kind::Piece, piece)?);
    }
    bytes.extend_from_slice(&frame(Kind::End, &[])?);
    Ok(to.write_all(&bytes).await?)
}
