#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = muster_fuzz::host::system_files(data);
});
