//! Processes that end again and again. From outside the daemon is the one way to its machine, so none of it is given up.

use super::*;

/// Ends a unit's process, a new one each time.
const KILL: &str = "pid=$(systemctl show -p MainPID --value UNIT); [ $pid != 0 ] && [ $pid != $(cat /run/killed 2>/dev/null || echo 0) ] && \
                    kill -9 $pid && echo $pid > /run/killed";
const OURS: &[&str] =
    &["musterd-core.service", "musterd-edge.service", "musterd-edge.socket", "musterd-control.socket"];

#[test]
fn fault_storm_a_core_or_edge_that_is_killed_twelve_times_comes_back_by_itself() -> Result<()> {
    require_root_or_skip!();
    let rig = Rig::claimed("fault-storm", |_, _| Ok(()))?;
    let node = &rig.node;
    // As after a reboot: what is built is not built again, and each new core asks for it.
    node.sh("systemctl stop muster-bootstrap")?;
    for unit in ["musterd-core", "musterd-edge"] {
        let begun = Instant::now();
        for _ in 0..12 {
            let kill = KILL.replace("UNIT", unit);
            until("there is a process to kill", || {
                Ok(node.exec(&["bash", "-c", &kill])?.ok().then_some(()))
            })?;
        }
        let killed = Instant::now();
        rig.answers()?;
        println!(
            "{unit}: 12 times in {:.0} s, and the API answers {:.1} s after the last",
            (killed - begun).as_secs_f64(),
            killed.elapsed().as_secs_f64()
        );
        active(node, OURS)?;
        nothing_failed(node)?;
    }
    Ok(())
}

#[test]
fn fault_storm_a_core_that_ends_at_once_is_tried_slowly_and_for_ever() -> Result<()> {
    require_root_or_skip!();
    let rig = Rig::claimed("fault-storm-dead", |_, _| Ok(()))?;
    let node = &rig.node;
    node.sh(
        "mkdir -p /run/systemd/system/musterd-core.service.d; \
         printf '[Service]\nExecStart=\nExecStart=/bin/false\n' > /run/systemd/system/musterd-core.service.d/dead.conf; \
         systemctl daemon-reload; systemctl kill -s KILL musterd-core",
    )?;
    // The edge knocks, root knocks, and neither makes it faster.
    let begun = Instant::now();
    node.sh("for i in $(seq 40); do timeout 0.3 musterd status >/dev/null 2>&1 || true; sleep 0.1; done")?;
    let tries: u64 = node.sh("systemctl show -p NRestarts --value musterd-core")?.trim().parse()?;
    let most = begun.elapsed().as_secs() / 2 + 2;
    println!("{tries} tries in {:.0} s", begun.elapsed().as_secs_f64());
    anyhow::ensure!((3..=most).contains(&tries), "{tries} tries, and {most} are the most");
    node.sh("rm /run/systemd/system/musterd-core.service.d/dead.conf; systemctl daemon-reload")?;
    let mended = Instant::now();
    rig.answers()?;
    println!("the API answers {:.1} s after it was mended", mended.elapsed().as_secs_f64());
    active(node, OURS)?;
    nothing_failed(node)
}
