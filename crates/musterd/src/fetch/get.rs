//! One `GET` over TLS, of a server that is trusted with nothing but its own content.
//!
//! HTTP/1.1, one request, no redirect, no cookie, no cache. The head is bounded by hyper, the body by what is wanted. Sources: RFC 9112,
//! RFC 9110, RFC 6750 (2.1).

use core::pin::pin;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HOST, HeaderValue, USER_AGENT,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::reach::Target;
use super::words::{Wanted, Why};

/// Bytes of the longest head of an answer, roughly: hyper counts what it has read before it reads on.
const HEAD: usize = 64 * 1024;

/// Gets it.
pub(super) async fn get(
    stream: TcpStream,
    config: Arc<ClientConfig>,
    target: &Target,
    wanted: &Wanted,
) -> Result<Zeroizing<Vec<u8>>, Why> {
    let tcp = tokio::net::TcpStream::from_std(stream).map_err(|_| Why::Ours)?;
    let tls = TlsConnector::from(config).connect(target.name.clone(), tcp).await;
    let tls = tls.map_err(|e| distrust(&e))?;
    let connection = http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(tls)).await;
    let (mut sender, connection) = connection.map_err(|_| Why::Cut)?;
    let mut connection = pin!(connection);
    let answer = async {
        let response = sender.send_request(request(target, wanted)?).await.map_err(|e| broken(&e))?;
        body(response, usize::try_from(wanted.max).unwrap_or(usize::MAX)).await
    };
    let mut answer = pin!(answer);
    tokio::select! {
        got = &mut answer => got,
        // It may end with the last byte of the answer in hand.
        ended = &mut connection => match ended {
            Ok(()) => answer.await,
            Err(e) => Err(broken(&e)),
        },
    }
}

/// Returns when the core has gone, or says what it should not.
pub(super) async fn left(core: UnixStream) {
    let core = core.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(core));
    if let Ok(core) = core {
        let _ = core.readable().await;
    }
}

fn request(target: &Target, wanted: &Wanted) -> Result<Request<Empty<Bytes>>, Why> {
    let mut request = Request::get(target.path.to_string())
        .header(HOST, &target.host)
        .header(USER_AGENT, concat!("musterd/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(ACCEPT_ENCODING, "identity");
    if let Some(token) = &wanted.bearer {
        let line = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let mut value = HeaderValue::from_str(&line).map_err(|_| Why::Ours)?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(Empty::new()).map_err(|_| Why::Ours)
}

async fn body(response: Response<Incoming>, max: usize) -> Result<Zeroizing<Vec<u8>>, Why> {
    let (head, mut body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(Why::Status { code: head.status.as_u16() });
    }
    if head.headers.get_all(CONTENT_ENCODING).iter().any(|c| !c.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Why::Coded);
    }
    let mut all = Zeroizing::new(Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|e| broken(&e))?.into_data() else { continue };
        if all.len().saturating_add(piece.len()) > max {
            return Err(Why::Long);
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

fn broken(error: &hyper::Error) -> Why {
    if error.is_parse() { Why::NotHttp } else { Why::Cut }
}

/// Why no handshake came about, without a word of what the other end sent.
fn distrust(error: &io::Error) -> Why {
    let Some(error) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) else {
        return Why::Cut;
    };
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => Why::Issuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Why::Ended,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Why::NotBegun,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Why::OtherHost
            }
            _ => Why::Certificate,
        },
        _ => Why::Tls,
    }
}
