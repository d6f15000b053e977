//! As much of S3 as is used: parts, whole objects, deletion. Signatures are not checked.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Kept {
    objects: BTreeMap<String, Vec<u8>>,
    parts: HashMap<String, BTreeMap<u32, Vec<u8>>>,
}

/// Answers until the test ends.
pub(crate) struct ObjectServer {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

struct Request {
    method: String,
    path: String,
    query: HashMap<String, String>,
    body: Vec<u8>,
}

impl ObjectServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &kept));
            }
        });
        Self { address, kept }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Paths and contents.
    pub(crate) fn kept(&self) -> BTreeMap<String, Vec<u8>> {
        self.kept.lock().unwrap().objects.clone()
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Kept>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let (status, headers, body) = answer(&request, &mut kept.lock().unwrap());
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        let mut stream = stream;
        let body = if request.method == "HEAD" { &[][..] } else { &body };
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    });
    Some(Request { method, path: path.to_owned(), query: query.collect(), body })
}

fn answer(request: &Request, kept: &mut Kept) -> (&'static str, &'static str, Vec<u8>) {
    let tag = "ETag: \"tag\"\r\nLast-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n";
    let path = request.path.clone();
    let upload = request.query.get("uploadId").cloned();
    match (request.method.as_str(), upload) {
        ("POST", None) if request.query.contains_key("uploads") => {
            let id = format!("upload-{}", kept.parts.len());
            kept.parts.insert(id.clone(), BTreeMap::new());
            let body =
                format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
            ("200 OK", tag, body.into_bytes())
        }
        ("PUT", Some(id)) => {
            let number = request.query["partNumber"].parse().unwrap();
            kept.parts.get_mut(&id).unwrap().insert(number, request.body.clone());
            ("200 OK", tag, Vec::new())
        }
        ("POST", Some(id)) => {
            let whole = kept.parts.remove(&id).unwrap().into_values().flatten().collect();
            kept.objects.insert(path, whole);
            let body = "<CompleteMultipartUploadResult><ETag>\"tag\"</ETag></CompleteMultipartUploadResult>";
            ("200 OK", tag, body.into())
        }
        ("PUT", None) => {
            kept.objects.insert(path, request.body.clone());
            ("200 OK", tag, Vec::new())
        }
        ("GET" | "HEAD", _) => match kept.objects.get(&path) {
            Some(content) => ("200 OK", tag, content.clone()),
            None => ("404 Not Found", "", Vec::new()),
        },
        ("DELETE", _) => {
            kept.objects.remove(&path);
            ("204 No Content", "", Vec::new())
        }
        _ => ("400 Bad Request", "", Vec::new()),
    }
}
