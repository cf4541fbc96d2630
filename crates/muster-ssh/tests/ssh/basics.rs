//! One host, straight.

use muster_ssh::testing::{Sshd, client};
use muster_ssh::{Limits, Route, Status, require_sshd_or_skip};

#[tokio::test]
async fn exec_says_what_the_command_said() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = client().connect(&Route::direct(sshd.hop("one"))).await.unwrap();
    let out = connection.exec("cat; echo err >&2; exit 7", b"hello", Limits::default()).await.unwrap();
    assert_eq!(out.status, Status::Exited(7));
    assert_eq!(out.stdout.bytes, b"hello");
    assert_eq!(out.stderr.bytes, b"err\n");
    assert!(out.output_complete);
    eprintln!("{:?}", connection.report());
    connection.close().await;
}
