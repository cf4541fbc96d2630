//! What a host was provisioned with is not lost by a later call that says nothing of it.

use anyhow::Result;
use muster_testbed::{Sudo, Testbed, require_root_or_skip};

use super::operator::{Operator, field};

/// Limits that only a call knew: refused when the next one leaves them out, shown by the plan, kept by the inventory.
#[test]
fn limits_of_an_earlier_call_are_kept_or_their_loss_is_meant() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("kept")?;
    let (node, operator, _) = Operator::of_one_host(&bed, "edge-1", "ops", Sudo::NoPassword)?;
    operator.tiny()?;
    let provision = operator.provision("edge-1", "-o json");
    let limits = "--profile tiny --controller-key keys/controller.pub;phases=join --max-deadline 10m --env HTTPS_PROXY=http://u:correct-horse@proxy";
    operator.run(&format!("{provision} {limits}"), b"")?.good()?;
    let policy = || node.sh("cat /etc/muster/shim.toml /etc/muster/authorized_keys.d/muster");
    let first = policy()?;
    assert!(
        first.contains("max-deadline = 600") && first.contains("phases = [\"probe\", \"join\"]"),
        "{first}"
    );

    // Nothing of it is said again: refused by name, and the host is as it was.
    let ran = operator.run(&format!("{provision} --profile tiny"), b"")?.ended(4)?;
    let rows = ran.json()?;
    assert_eq!(field(&rows, "edge-1", "reason"), "provision-widens", "{rows:#}");
    let detail = field(&rows, "edge-1", "detail").as_str().unwrap().to_owned();
    for want in ["join, probe -> every phase", "max-deadline: 600 -> 7200", "--widen phases,max-deadline"] {
        assert!(detail.contains(want), "{detail}");
    }
    assert_eq!(policy()?, first);
    let ran = operator.run(&format!("{provision} --profile tiny --widen phases"), b"")?.ended(4)?;
    assert!(ran.out.contains("--widen max-deadline."), "{}", ran.out);
    assert_eq!(policy()?, first);

    // The plan shows it all, in words and for programs, and no value of a variable.
    let ran = operator.run(&format!("{provision} --profile tiny --plan"), b"")?.good()?;
    let rows = ran.json()?;
    let changes = field(&rows, "edge-1", "changes").as_array().unwrap().clone();
    let has = |change: &str, widens: serde_json::Value| {
        changes.iter().any(|c| c["change"].as_str().unwrap().contains(change) && c["widens"] == widens)
    };
    assert!(has("max-deadline: 600 -> 7200", "max-deadline".into()), "{changes:#?}");
    assert!(has("every phase", "phases".into()), "{changes:#?}");
    assert!(has("- variable HTTPS_PROXY", serde_json::Value::Null), "{changes:#?}");
    let plan = operator.run(&operator.provision("edge-1", "--profile tiny --plan"), b"")?.good()?;
    assert!(plan.out.contains("policy: max-deadline: 600 -> 7200 (widens max-deadline)"), "{}", plan.out);
    assert!(plan.err.contains("--widen phases,max-deadline"), "{}", plan.err);
    for text in [&ran.out, &ran.err, &plan.out, &plan.err] {
        assert!(!text.contains("correct-horse"), "{text}");
    }

    // The inventory says it: every later call says no more than the host.
    let block = "defaults:\n  provision:\n    controllers: [{key: keys/controller.pub, phases: [join]}]\n    profiles: [tiny]\n    \
                 max-deadline: 10m\n    env: {HTTPS_PROXY: 'http://u:correct-horse@proxy'}\n";
    operator.edit(|t| t.replace("defaults:\n", block))?;
    let rows = operator.run(&provision, b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "unchanged", "{rows:#}");
    operator.edit(|t| t.replace("max-deadline: 10m", "max-deadline: 1h"))?;
    operator.run(&provision, b"")?.ended(4)?;
    operator.run(&format!("{provision} --widen max-deadline"), b"")?.good()?;
    assert_eq!(policy()?, first.replace("max-deadline = 600", "max-deadline = 3600"));
    Ok(())
}
