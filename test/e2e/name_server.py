"""A name server for a test: A records over UDP, and every kind of failure."""
import contextlib
import socket
import struct
import threading

NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
TYPE_A = 1


class NameServer:
    def __init__(self):
        self.addresses = {}  # name -> list of IPv4 addresses; a missing name does not exist
        self.ttl = 1
        self.mute = False  # True: no response
        self.failing = False  # True: SERVFAIL
        self.questions = []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def stop(self):
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
        code, addresses = NOERROR, []
        if self.failing:
            code = SERVFAIL
        elif name not in self.addresses:
            code = NXDOMAIN
        elif kind == TYPE_A:
            addresses = list(self.addresses[name])
        records = b"".join(struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, self.ttl, 4) + socket.inet_aton(address)
                           for address in addresses)
        flags = 0x8180 | code
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0) + question + records
