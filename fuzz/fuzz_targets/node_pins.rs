#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = muster_fuzz::operator::node_pins(data);
});
