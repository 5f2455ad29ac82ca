//! Headless Chromium, controlled through a pair of pipes by its DevTools protocol: JSON messages,
//! each ended by a NUL. <https://chromedevtools.github.io/devtools-protocol/>

use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use crate::skip::{Lack, skip};

/// More than a hundred times a step on an idle machine: ends a test that would wait for ever.
const TIMEOUT: Duration = Duration::from_secs(540);

pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<Value>,
    number: u64,
    session: Option<String>,
    /// Events of the page: console messages, exceptions, requests, violations of its policy.
    pub(crate) events: Vec<Value>,
    /// The browser's profile, removed on drop.
    _home: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser. Without one: `None`, and the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        let home = tempfile::tempdir().expect("a directory for the browser's profile");
        let path = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let Some(path) = path else {
            skip(Lack::Tool, "no chromium: apt-get install chromium");
            return None;
        };
        // The browser reads requests from descriptor 3 and answers on 4; its pipes are at 0 and 1.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", path])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--disable-component-update", "--disable-background-networking"])
            .args(["--disable-dev-shm-usage", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .arg("about:blank")
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromium starts");
        let orders = child.stdin.take().expect("it is a pipe");
        let answers = child.stdout.take().expect("it is a pipe");
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("chromium speaks JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { child, orders, messages, number: 0, session: None, events: Vec::new(), _home: home };
        let target = browser.order("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.order("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().expect("a session").into());
        for domain in ["Page", "Runtime", "Network", "Log", "Audits"] {
            browser.order(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a request and returns the answer.
    pub(crate) fn order(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).expect("chromium reads");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let mut message = self
                .messages
                .recv_timeout(rest)
                .unwrap_or_else(|error| panic!("no answer to {method}: {error}"));
            if message["id"] == json!(self.number) {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path) {
        self.events.clear();
        self.order("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'");
    }

    /// Sets the window's size in pixels and the system's theme.
    pub(crate) fn resize(&mut self, width: u32, height: u32, theme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.order("Emulation.setDeviceMetricsOverride", size);
        let theme = json!({ "name": "prefers-color-scheme", "value": theme });
        self.order("Emulation.setEmulatedMedia", json!({ "features": [theme] }));
        self.settle();
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.order("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let value = self.value(&format!("document.querySelector({}).innerText", json!(selector)));
        value.as_str().unwrap_or_else(|| panic!("{selector} has no text")).into()
    }

    pub(crate) fn wait(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.value(expression) != json!(true) {
            assert!(Instant::now() < deadline, "it never came true: {expression}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for an event with this text, which may come after the answer to its `cause`.
    pub(crate) fn wait_for_event(&mut self, text: &str, cause: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.events.iter().any(|event| event.to_string().contains(text)) {
            assert!(Instant::now() < deadline, "{cause}: never {text}: {:?}", self.events);
            thread::sleep(Duration::from_millis(5));
            self.value("0");
        }
    }

    /// Waits for the next frame, so that changes are drawn.
    pub(crate) fn settle(&mut self) {
        self.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        );
    }

    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let count = u8::from(kind != "mouseMoved");
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
            self.order("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// Clicks on the middle of an element.
    pub(crate) fn click_on(&mut self, selector: &str) {
        let script = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()",
            json!(selector)
        );
        let place = self.value(&script);
        self.click(place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"));
    }

    /// Presses and releases a key, by its name; a letter is typed.
    pub(crate) fn key(&mut self, key: &str) {
        let mut event = json!({ "type": "keyDown", "key": key });
        match key {
            "Enter" => event["text"] = json!("\r"),
            letter if letter.chars().count() == 1 => event["text"] = json!(letter),
            _ => event["windowsVirtualKeyCode"] = json!(virtual_key(key)),
        }
        self.order("Input.dispatchKeyEvent", event);
        self.order("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
        self.settle();
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        text.chars().for_each(|letter| self.key(&letter.to_string()));
    }

    /// Returns a screenshot of the window as PNG, and saves it as `name`.
    pub(crate) fn screenshot(&mut self, name: &str) -> Vec<u8> {
        self.settle();
        let answer = self.order("Page.captureScreenshot", json!({ "format": "png" }));
        let png = from_base64(answer["data"].as_str().expect("a picture"));
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &png).expect("the picture is kept");
        png
    }

    /// Returns the number of colours on the flame graph's canvas, and of coloured points.
    pub(crate) fn canvas_colours(&mut self) -> (u64, u64) {
        let value = self.value(
            "(() => { const c = document.getElementById('flame-canvas'); \
             const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
             const seen = new Set(); let drawn = 0; \
             for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 0) { drawn++; seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); } \
             return [seen.size, drawn]; })()",
        );
        (value[0].as_u64().expect("a number"), value[1].as_u64().expect("a number"))
    }

    /// Panics if the page wrote to the console, requested another file, or violated its policy.
    pub(crate) fn assert_quiet(&mut self) {
        self.value("0");
        for event in &self.events {
            let is_bad = match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown"
                | "Runtime.consoleAPICalled"
                | "Log.entryAdded"
                | "Audits.issueAdded" => true,
                "Network.requestWillBeSent" => event["params"]["type"] != json!("Document"),
                _ => false,
            };
            // The browser's advice for reads of a canvas, which only these tests do.
            let is_ours = event["params"]["entry"]["text"]
                .as_str()
                .is_some_and(|text| text.contains("willReadFrequently"));
            assert!(!is_bad || is_ours, "{event}");
        }
    }
}

fn virtual_key(key: &str) -> u32 {
    match key {
        "Backspace" => 8,
        "Tab" => 9,
        "Escape" => 27,
        "ArrowLeft" => 37,
        "ArrowUp" => 38,
        "ArrowRight" => 39,
        "ArrowDown" => 40,
        _ => panic!("{key} is not known here"),
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = group.iter().fold(0_u32, |word, &letter| word << 6 | u32::from(value(letter)));
        let word = word << (6 * (4 - group.len()));
        bytes.extend(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        self.number += 1;
        let close = json!({ "id": self.number, "method": "Browser.close" });
        let _ = self.orders.write_all(format!("{close}\0").as_bytes());
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
