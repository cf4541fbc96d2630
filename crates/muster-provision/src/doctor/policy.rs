//! Trust files, policy and floors: whether they parse, and what they leave open.

use super::{Check, Evidence, Finding, PROVISION, Subject, check, fail, pass, warn};
use crate::files;
use crate::floors::Floors;
use crate::policy::Policy;
use muster_core::ProfileName;
use muster_signing::allowed_signers::{AllowedSigners, ZuluOnly};

fn read(e: &Evidence) -> Result<Policy, Finding> {
    let body = e
        .bodies
        .get(files::SHIM_TOML)
        .ok_or_else(|| fail(format!("{} is not there", files::SHIM_TOML), PROVISION))?;
    Policy::read(body).map_err(|why| fail(format!("{} {why}", files::SHIM_TOML), "mend the line"))
}

/// What the host calls itself.
pub(super) fn host_of(e: &Evidence) -> Option<String> {
    read(e).ok()?.host
}

pub(super) fn checks(_: &Subject, e: &Evidence) -> Vec<Check> {
    let policy = read(e);
    let with = |f: &dyn Fn(&Policy) -> Finding| match &policy {
        Ok(p) => f(p),
        Err(found) => found.clone(),
    };
    let mut out = vec![
        check(
            "policy",
            "without a readable policy the shim refuses everything on envelope 2",
            with(&|p| shape(p, e)),
        ),
        check(
            "envelope-1",
            "on envelope 1 a signature covers the script's bytes and nothing else: replay, phase and parameters are open",
            with(&envelope_one),
        ),
        check(
            "profiles",
            "a profile that is listed without a least epoch takes every old intent on a fresh host",
            with(&profiles),
        ),
        check(
            "host-name",
            "without a name only intents for `*` match, and those are for every host",
            with(&name),
        ),
        check(
            "signers",
            "the trust root: a line that is not understood voids the whole file",
            with(&|p| signers(p, e)),
        ),
        check(
            "revocation",
            "a stolen signer is stopped by this list alone until it expires",
            with(&|p| revocation(p, e)),
        ),
        check(
            "floors",
            "floors keep old intents from running again; a lost file stops everything",
            with(&|p| floors(p, e)),
        ),
        check("key-policy", "a key that may ask for every phase can have `uninstall` run", with(&keys)),
    ];
    if e.paths.get(files::KPSSH_SHIM).is_some_and(Option::is_some) {
        out.push(check("drop-in-signers", "the trust root of the shim's second name", drop_in(e)));
    }
    out
}

fn shape(p: &Policy, _: &Evidence) -> Finding {
    match &p.profiles {
        None if !p.envelope_1 => fail("no [profiles] table and envelope 1 off: nothing can run", PROVISION),
        None => fail("no [profiles] table, so envelope 2 is refused", PROVISION),
        Some(t) => pass(format!("{} profiles, {} signers needed", t.len(), p.signers_needed)),
    }
}

fn envelope_one(p: &Policy) -> Finding {
    if !p.envelope_1 {
        pass("off")
    } else if p.signers_needed > 1 {
        pass("written as on, and refused all the same, because more than one signer is needed")
    } else {
        fail(
            "on: replay, phase and parameters open",
            "sign intents, move the controllers to envelope 2, then set `envelope-1 = false`",
        )
    }
}

fn profiles(p: &Policy) -> Finding {
    let table = p.profiles.iter().flatten();
    let open: Vec<&str> =
        table.clone().filter(|(_, v)| v.min_epoch.is_none()).map(|(k, _)| k.as_str()).collect();
    if let Some((bad, _)) = table.clone().find(|(k, _)| ProfileName::new(k).is_err()) {
        return fail(format!("{bad:?} is not the name of a profile"), PROVISION);
    }
    if open.is_empty() {
        pass(
            table
                .map(|(k, v)| format!("{k} from epoch {}", v.min_epoch.unwrap_or(1)))
                .collect::<Vec<_>>()
                .join(", "),
        )
    } else {
        warn(format!("without min-epoch: {}", open.join(", ")), PROVISION)
    }
}

fn name(p: &Policy) -> Finding {
    match &p.host {
        Some(h) => pass(h.clone()),
        None => warn("the policy gives the host no name", PROVISION),
    }
}

fn signers(p: &Policy, e: &Evidence) -> Finding {
    let Some(body) = e.bodies.get(files::ALLOWED_SIGNERS) else {
        return fail(format!("{} is not there: nobody is trusted", files::ALLOWED_SIGNERS), PROVISION);
    };
    match AllowedSigners::parse(body, &ZuluOnly) {
        Err(fault) => {
            fail(format!("{} {fault}", files::ALLOWED_SIGNERS), "mend the line; times must end in Z")
        }
        Ok(s) => {
            let able = s.identities("muster", "muster-intent").len();
            if able < p.signers_needed {
                let found = format!(
                    "{able} distinct signers can sign, {} are needed: nothing can run",
                    p.signers_needed
                );
                return fail(found, "list more keys, or lower signers-needed");
            }
            pass(format!("{able} distinct signers can sign, {} needed", p.signers_needed))
        }
    }
}

fn revocation(p: &Policy, e: &Evidence) -> Finding {
    let list = e.bodies.get(files::REVOKED_SIGNERS);
    let faulty = list.and_then(|b| crate::trust::check_revoked_signers(b).err());
    match (p.revoked_signers.as_str(), list, faulty) {
        (_, _, Some(f)) => fail(format!("{} {f}", files::REVOKED_SIGNERS), "mend the line"),
        ("required", None, _) => {
            fail(format!("{} is required and not there: nothing runs", files::REVOKED_SIGNERS), PROVISION)
        }
        ("required", Some(_), None) => pass("required, and it can be read"),
        (word, _, None) => warn(
            format!("revoked-signers is {word}: removing the file un-revokes everybody"),
            "set `revoked-signers = \"required\"`",
        ),
    }
}

fn floors(p: &Policy, e: &Evidence) -> Finding {
    let Some(body) = e.bodies.get(files::FLOORS) else {
        return fail(
            format!("{} is not there", files::FLOORS),
            "find out who removed it, then rebuild it with `muster host floor set`",
        );
    };
    match Floors::parse(body) {
        Err(why) => fail(format!("{}: {why}", files::FLOORS), "rebuild it with `muster host floor set`"),
        Ok(f) => {
            let least = |n: &ProfileName| {
                p.profiles
                    .iter()
                    .flatten()
                    .find(|(k, _)| k.as_str() == n.as_str())
                    .and_then(|(_, v)| v.min_epoch)
            };
            let below: Vec<String> = f
                .floors
                .iter()
                .filter_map(|(n, floor)| {
                    least(n).filter(|m| m > floor).map(|m| format!("{n} {floor} (min-epoch {m})"))
                })
                .collect();
            if below.is_empty() {
                pass(f.floors.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>().join(", "))
            } else {
                pass(format!("min-epoch is above the file for {}", below.join(", ")))
            }
        }
    }
}

fn keys(p: &Policy) -> Finding {
    match &p.keys {
        Some(t) => pass(format!("phases are listed for {} keys", t.len())),
        None => warn(
            "every controller key may ask for every phase",
            "list the phases of each key: `phases:` of its entry under `provision: {controllers: …}` in the inventory, then provision",
        ),
    }
}

fn drop_in(e: &Evidence) -> Finding {
    match e.bodies.get(files::KPSSH_ALLOWED_SIGNERS) {
        None => fail(
            format!("{} is not there: nobody is trusted", files::KPSSH_ALLOWED_SIGNERS),
            "put it in place",
        ),
        Some(body) => match crate::trust::check_allowed_signers(body, false) {
            Ok(()) => pass(format!("{} can be read", files::KPSSH_ALLOWED_SIGNERS)),
            Err(f) => fail(format!("{} {f}", files::KPSSH_ALLOWED_SIGNERS), "mend the line"),
        },
    }
}
