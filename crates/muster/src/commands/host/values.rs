//! Parameters and secrets: from the command line, from files, from the inventory; never a secret from the command line.

use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use crate::inventory::{Host, VarValue};
use crate::printer::clean;
use crate::remote::load::{Value, Values};
use crate::secret::{Secret, Secrets};
use crate::shell::is_carried;
use muster_core::redact::SHORTEST;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Longest secret: that of an intent's parameter.
const LONGEST: usize = 65_536;

/// What the command line gave, for all hosts alike.
#[derive(Debug, Default)]
pub struct Given {
    values: BTreeMap<String, Value>,
}

impl Given {
    /// Reads `--param NAME=VALUE` and `--secret NAME=@FILE` or `NAME=-`.
    pub fn read(params: &[String], secrets: &[String]) -> Result<Self, Faults> {
        let mut given = Self::default();
        let mut faults = Vec::new();
        for text in params {
            if let Err(fault) = given.param(text) {
                faults.push(fault);
            }
        }
        let mut stdin = false;
        for text in secrets {
            if let Err(fault) = given.secret(text, &mut stdin) {
                faults.push(fault);
            }
        }
        Faults::check(faults)?;
        Ok(given)
    }

    fn param(&mut self, text: &str) -> Result<(), Fault> {
        let shown = clean(text.split('=').next().unwrap_or_default());
        let Some((name, value)) = text.split_once('=') else {
            return Err(Fault::new(Own::ParamArgument, format!("--param {shown:?} has no `=`")));
        };
        self.take("--param", name, Value::Plain(value.to_owned()))
    }

    fn secret(&mut self, text: &str, stdin: &mut bool) -> Result<(), Fault> {
        let Some((name, source)) = text.split_once('=') else {
            // What stands there may be the secret itself.
            return Err(Fault::new(Own::ParamArgument, "a --secret has no `=`")
                .fix("Write --secret NAME=@FILE or NAME=-."));
        };
        let path = match source.strip_prefix('@') {
            Some("") => {
                return Err(Fault::new(
                    Own::ParamArgument,
                    format!("--secret {} names no file", clean(name)),
                ));
            }
            Some(path) => path,
            None if source == "-" => "-",
            None => {
                return Err(Fault::new(Own::SecretOnArgv, format!("--secret {} holds a value, not @FILE or -", clean(name)))
                    .why("every local user can read command lines, and shells keep them: treat that secret as known")
                    .hint("a value that is no secret goes with --param"));
            }
        };
        if path == "-" && core::mem::replace(stdin, true) {
            return Err(Fault::new(Own::StdinTwice, "two secrets are read from standard input"));
        }
        let secret = read_secret(Path::new(path), name)?;
        self.take("--secret", name, Value::Secret(Arc::new(secret)))
    }

    fn take(&mut self, option: &str, name: &str, value: Value) -> Result<(), Fault> {
        if !is_carried(name) || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(Fault::new(
                Own::ParamArgument,
                format!("{option} {:?} is not a name that hosts take", clean(name)),
            )
            .fix("Use MUSTER_ or KPSSH_ and letters, digits, underscores."));
        }
        if self.values.insert(name.to_owned(), value).is_some() {
            return Err(Fault::new(Own::ParamArgument, format!("{name} is given twice")));
        }
        Ok(())
    }

    /// What one host gets: the inventory's variables that the profile declares, then what the command line says. Secrets are
    /// read from their files here, and added to `secrets`.
    pub fn for_host(
        &self,
        host: &Host,
        declared: &dyn Fn(&str) -> bool,
        secrets: &mut Secrets,
    ) -> Result<Values, Fault> {
        let mut all = BTreeMap::new();
        for var in host.vars.iter().filter(|v| declared(&v.name) && !self.values.contains_key(&v.name)) {
            let value = match &var.value {
                VarValue::Plain(text) => Value::Plain(text.clone()),
                VarValue::SecretFile(file) => Value::Secret(Arc::new(read_secret(file, &var.name)?)),
            };
            all.insert(var.name.clone(), value);
        }
        all.extend(self.values.iter().map(|(n, v)| (n.clone(), v.clone())));
        for value in all.values() {
            if let Value::Secret(secret) = value {
                secrets.add(secret.expose());
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Whether one value for all of these hosts is what anybody would want: not where the inventory gives each its own.
    pub fn suits_all(&self, hosts: &[&Host]) -> Result<(), Faults> {
        let mut faults = Vec::new();
        for name in self.values.keys() {
            let own = |host: &&Host| host.vars.iter().find(|v| v.name == *name).map(|v| v.value.clone());
            let mut all = hosts.iter().filter_map(own);
            let first = all.next();
            if all.any(|other| Some(&other) != first.as_ref()) {
                let what = format!(
                    "{name} has one value for {} hosts on the command line, and the inventory gives each its own",
                    hosts.len()
                );
                faults.push(Fault::new(Own::ParamArgument, what).fix("Leave it out, or name one host."));
            }
        }
        Faults::check(faults)
    }

    /// Names of parameters whose name says that they are a secret, and that stand on the command line all the same.
    pub fn suspicious(&self) -> Vec<&str> {
        let secret = |name: &str| {
            ["TOKEN", "PASSWORD", "PASSWD", "SECRET", "PRIVATE"].iter().any(|w| name.contains(w))
        };
        let plain = self.values.iter().filter(|(_, v)| matches!(v, Value::Plain(_)));
        plain.map(|(n, _)| n.as_str()).filter(|n| secret(&n.to_ascii_uppercase())).collect()
    }
}

fn read_secret(path: &Path, name: &str) -> Result<Secret, Fault> {
    let bytes = zeroize::Zeroizing::new(files::read(path, LONGEST + 2)?);
    secret_of(&bytes).map_err(|why| {
        Fault::new(Own::SecretForm, format!("the secret {name}")).why(why.to_owned()).at(path, 0)
    })
}

/// What a secret's file holds: one line of 8 to 65,536 bytes; a line end behind it is not part of it.
pub fn secret_of(file: &[u8]) -> Result<Secret, &'static str> {
    let bytes = file.strip_suffix(b"\n").unwrap_or(file);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.iter().any(|b| matches!(b, 0 | b'\n' | b'\r')) {
        return Err("it has more than one line, or NUL");
    }
    if bytes.len() < SHORTEST {
        return Err("it is shorter than 8 bytes, so that it could not be kept out of what is shown");
    }
    if bytes.len() > LONGEST {
        return Err("it is over 65536 bytes");
    }
    Ok(Secret::new(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Inventory;

    fn given(params: &[&str], secrets: &[&str]) -> Result<Given, Vec<String>> {
        let own = |t: &[&str]| t.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Given::read(&own(params), &own(secrets)).map_err(|f| f.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn one_value_is_not_for_hosts_that_have_their_own() {
        let text = "defaults:\n  vars: {MUSTER_NODE_NAME: {from: name}, MUSTER_REGION: eu}\nhosts: {a: {ssh: {address: a}}, b: {ssh: {address: b}}}\n";
        let inv = Inventory::parse(text, Path::new("i.yaml"), None).unwrap();
        let (one, both) = ([&inv.hosts[0]], [&inv.hosts[0], &inv.hosts[1]]);
        let name = given(&["MUSTER_NODE_NAME=x"], &[]).unwrap();
        assert!(name.suits_all(&one).is_ok());
        let told = name.suits_all(&both).unwrap_err().iter().map(ToString::to_string).collect::<String>();
        assert!(told.contains("MUSTER_NODE_NAME has one value for 2 hosts"), "{told}");
        let region = given(&["MUSTER_REGION=us"], &[]).unwrap();
        assert!(region.suits_all(&both).is_ok(), "the inventory gives both the same");
    }

    #[test]
    fn a_secret_on_the_command_line_is_refused_and_not_repeated() {
        for bad in ["MUSTER_T=hunter2hunter2", "hunter2hunter2", "MUSTER_T=@", "MUSTER_T="] {
            let said = given(&[], &[bad]).unwrap_err().join("\n");
            assert!(!said.contains("hunter2"), "{said}");
        }
        assert!(given(&[], &["MUSTER_T=x"]).unwrap_err()[0].contains("treat that secret as known"));
    }

    #[test]
    fn names_and_repeats() {
        for (bad, want) in [
            ("PATH=x", "not a name"),
            ("MUSTER_A", "no `=`"),
            ("BASH_ENV=x", "not a name"),
            ("MUSTER_A B=x", "not a name"),
        ] {
            assert!(given(&[bad], &[]).unwrap_err()[0].contains(want), "{bad}");
        }
        assert!(given(&["MUSTER_A=1", "MUSTER_A=2"], &[]).unwrap_err()[0].contains("twice"));
        assert_eq!(
            given(&["MUSTER_A=a=b", "MUSTER_JOIN_TOKEN=x"], &[]).unwrap().suspicious(),
            ["MUSTER_JOIN_TOKEN"]
        );
    }

    #[test]
    fn the_command_line_wins_over_the_inventory_and_undeclared_variables_stay_at_home() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t"), "canary-canary\n").unwrap();
        let text = "hosts: {a: {ssh: {address: a}, vars: {MUSTER_A: inv, MUSTER_B: inv, MUSTER_X: no, MUSTER_T: {secret-file: t}}}}\n";
        let inv = Inventory::parse(text, &dir.path().join("i.yaml"), None).unwrap();
        let mut secrets = Secrets::default();
        let given = given(&["MUSTER_A=line"], &[]).unwrap();
        let got = given.for_host(&inv.hosts[0], &|n| n != "MUSTER_X", &mut secrets).unwrap();
        let shown: Vec<(&str, &[u8])> = got.iter().map(|(n, v)| (n.as_str(), v.bytes())).collect();
        assert_eq!(shown, [("MUSTER_A", &b"line"[..]), ("MUSTER_B", b"inv"), ("MUSTER_T", b"canary-canary")]);
        assert!(!secrets.redact_text("canary-canary").contains("canary"));
        assert!(!format!("{got:?}").contains("canary"));
        for bad in ["short", "two\nlines of it", "with\0nul in it"] {
            std::fs::write(dir.path().join("t"), bad).unwrap();
            let fault = given.for_host(&inv.hosts[0], &|_| true, &mut secrets).unwrap_err();
            assert_eq!(fault.code, Own::SecretForm.into());
        }
    }
}
