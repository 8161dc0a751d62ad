"""A certificate authority for a test."""
import ssl
import subprocess


class Authority:
    def __init__(self, directory, name="ca"):
        self.directory = directory
        self.certificate, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        self.openssl("-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate, "-days", "2",
                     "-addext", "basicConstraints=critical,CA:TRUE")

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        *map(str, words)], check=True, capture_output=True, timeout=20)

    def issue(self, name, alternative, days=2):
        """A certificate and its key, for `IP:127.0.0.1` or `DNS:name`."""
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        self.openssl("-subj", f"/CN={name}", "-keyout", key, "-out", certificate, "-days", str(days),
                     "-CA", self.certificate, "-CAkey", self.key, "-addext", f"subjectAltName={alternative}",
                     "-addext", "basicConstraints=critical,CA:FALSE")
        return certificate, key

    def server(self, name, alternative):
        """For a stand-in that speaks TLS."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*self.issue(name, alternative))
        return tls

    def client(self, check_name=True):
        """For a client that trusts this authority alone."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(self.certificate)
        tls.check_hostname = check_name
        return tls
