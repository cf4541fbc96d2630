#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = muster_fuzz::node::client_key(data);
});
