//! A service that profiles itself, and shows what it is doing to whoever asks:
//!
//! ```text
//! cargo run --release -p sigprof-analysis --example service -- 127.0.0.1:8080 60
//! go tool pprof -top http://127.0.0.1:8080/profile.pb.gz
//! xdg-open http://127.0.0.1:8080/flamegraph.svg
//! ```
//!
//! It answers GET alone. Open such a port to nobody but yourself: profiles tell the names of functions, files and threads.

use sigprof::MemoryProfiler;
use sigprof_analysis::{
    formats::{memory, pprof},
    profile::Profile,
    report::flamegraph,
    symbolize::{self, Symbolizer},
};
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let seconds: u64 = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let listener = TcpListener::bind(address)?;
    let profiler = sigprof::Profiler::builder().frequency(250).by_thread().start_in_memory()?;
    let place = listener.local_addr()?;
    println!("http://{place}/profile.pb.gz and http://{place}/flamegraph.svg for {seconds} s");
    thread::Builder::new().name("work".into()).spawn(move || work(Duration::from_secs(seconds)))?;
    thread::Builder::new().name("serve".into()).spawn(move || serve(&listener, &profiler))?;
    thread::sleep(Duration::from_secs(seconds));
    Ok(ExitCode::SUCCESS)
}

/// Answers one request after another, until the listener fails.
pub(crate) fn serve(listener: &TcpListener, profiler: &MemoryProfiler) {
    for stream in listener.incoming() {
        // Who asks and hangs up is no reason to stop.
        if let Err(error) = stream.and_then(|stream| answer(stream, profiler)) {
            eprintln!("service: {error}");
        }
    }
}

/// Reads a request, and writes the response.
pub(crate) fn answer(stream: TcpStream, profiler: &MemoryProfiler) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // A request that is longer is none for here.
    let mut request = BufReader::new((&stream).take(16 << 10));
    let mut first = String::new();
    request.read_line(&mut first)?;
    let mut header = String::new();
    while request.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = first.split(' ');
    let (status, kind, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => match page(path, profiler)? {
            Some((kind, body)) => ("200 OK", kind, body),
            None => {
                ("404 Not Found", "text/plain", b"there are /profile.pb.gz and /flamegraph.svg\n".to_vec())
            }
        },
        _ => ("405 Method Not Allowed", "text/plain", b"GET alone is answered\n".to_vec()),
    };
    let mut out = &stream;
    write!(out, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len())?;
    write!(out, "Connection: close\r\n\r\n")?;
    out.write_all(&body)
}

/// The type and the bytes of what is at a path.
fn page(path: &str, profiler: &MemoryProfiler) -> io::Result<Option<(&'static str, Vec<u8>)>> {
    let mut body = Vec::new();
    let kind = match path {
        "/profile.pb.gz" => {
            pprof::write(&profile(profiler)?, &mut body)?;
            "application/octet-stream"
        }
        "/flamegraph.svg" => {
            let options =
                flamegraph::FlamegraphOptions { by_thread: true, ..flamegraph::FlamegraphOptions::default() };
            flamegraph::write(&profile(profiler)?, &options, &mut body)?;
            "image/svg+xml"
        }
        _ => return Ok(None),
    };
    Ok(Some((kind, body)))
}

/// What was sampled until now, with names.
fn profile(profiler: &MemoryProfiler) -> io::Result<Profile> {
    let mut profile = memory::read(&profiler.snapshot().map_err(io::Error::other)?);
    for warning in
        Symbolizer::new(symbolize::SymbolizerOptions::default()).symbolize(&mut profile, &mut |_| {})
    {
        eprintln!("service: {warning}");
    }
    Ok(profile)
}

/// What the service is there for: it counts words.
#[inline(never)]
pub(crate) fn work(time: Duration) -> usize {
    let begin = Instant::now();
    let mut words = BTreeMap::<String, usize>::new();
    let mut state = 1u64;
    while begin.elapsed() < time {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *words.entry(format!("word {}", state >> 50)).or_default() += 1;
    }
    words.values().copied().max().unwrap_or(0)
}
