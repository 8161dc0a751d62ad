"""A name server for a test: A and SRV records over UDP, and every kind of failure."""
import contextlib
import socket
import struct
import threading

NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
TYPE_A, TYPE_SRV = 1, 33


def encode_name(name):
    labels = name.encode().split(b".")
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


class NameServer:
    def __init__(self):
        self.addresses = {}  # name -> list of IPv4 addresses; a missing name does not exist
        self.services = {}  # name -> list of (target, port)
        self.ttl = 1
        self.mute = False  # True: no response
        self.failing = False  # True: SERVFAIL
        self.questions = []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self.sock.close()
        self.thread.join(2)

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                query, peer = self.sock.recvfrom(4096)
                if not query:
                    return
                response = self.respond(query)
                if response:
                    self.sock.sendto(response, peer)

    def respond(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        question = query[12:at + 5]
        kind = struct.unpack("!H", query[at + 1:at + 3])[0]
        name = ".".join(labels)
        self.questions.append((name, kind))
        if self.mute:
            return None
        code, data = NOERROR, []
        if self.failing:
            code = SERVFAIL
        elif name not in self.addresses and name not in self.services:
            code = NXDOMAIN
        elif kind == TYPE_A:
            data = [socket.inet_aton(address) for address in self.addresses.get(name, [])]
        elif kind == TYPE_SRV:
            data = [struct.pack("!HHH", 0, 0, port) + encode_name(target)
                    for target, port in self.services.get(name, [])]
        records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, self.ttl, len(each)) + each for each in data)
        flags = 0x8180 | code
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(data), 0, 0) + question + records
