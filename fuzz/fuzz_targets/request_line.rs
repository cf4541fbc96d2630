#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = muster_fuzz::edge::request_line(data);
});
