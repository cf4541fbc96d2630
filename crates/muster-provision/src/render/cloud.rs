//! `--as cloud-init`: a `#cloud-config` that carries the script and runs it once.
//!
//! Source: the `write_files` and `runcmd` modules of the cloud-init documentation. `runcmd` runs in
//! the final stage, after host keys were made and sshd was started.

use super::{ShimSource, script, yaml_block};
use crate::plan::Plan;

/// Where the script lies while it runs.
const PATH: &str = "/run/muster-provision.sh";

/// A cloud-config. With [`ShimSource::Embedded`] it is as large as one and a half shims, which some
/// clouds do not take (16 KiB on EC2); it is right for NoCloud seeds and images.
pub fn cloud_init(plan: &Plan, shim: &ShimSource) -> String {
    format!(
        "#cloud-config\n\
         # Makes the machine a Muster pool host: login {}, plan {}.\n\
         write_files:\n\
         \x20 - path: {PATH}\n\
         \x20   owner: root:root\n\
         \x20   permissions: '0700'\n\
         \x20   content: {}\
         runcmd:\n\
         \x20 - [sh, -c, 'sh {PATH} && rm -f {PATH}']\n",
        plan.account(),
        plan.digest(),
        yaml_block(&script::sh(plan, shim), 6),
    )
}
