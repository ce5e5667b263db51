//! [`Socket`]: a connection with or without TLS. It must not know what is sent on it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::timeouts::TimeoutSocket;

/// A connection.
pub(in crate::mcp::transport::http) enum Socket {
    /// Without TLS.
    Plain(TimeoutSocket<TcpStream>),
    /// With TLS. Boxed, because the TLS state is large.
    Secured(Box<TlsStream<TimeoutSocket<TcpStream>>>),
}

macro_rules! either {
    ($socket:expr, $each:ident => $act:expr) => {
        match &mut *$socket {
            Socket::Plain(socket) => {
                let $each = Pin::new(socket);
                $act
            }
            Socket::Secured(socket) => {
                let $each = Pin::new(&mut **socket);
                $act
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, each => each.poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, each => each.poll_write(context, buffer))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, each => each.poll_write_vectored(context, buffers))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(socket) => socket.is_write_vectored(),
            Socket::Secured(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, each => each.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, each => each.poll_shutdown(context))
    }
}
