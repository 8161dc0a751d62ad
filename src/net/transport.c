// SPDX-License-Identifier: Apache-2.0

#include "net/transport.h"

#include "base/base.h"
#include "net/tcp.h"
#include "net/tls.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// One TLS record, into which slices are gathered: a head and a short body travel together.
enum { record_size_max = 16384 };

enum status transport_open(struct transport *transport, struct loop *loop, int fd,
                           struct tls_context *context, const char *host)
{
    transport->source.fd = fd;
    transport->tls = NULL;
    transport->can_read = false;
    transport->can_write = false;
    transport->hung_up = false;
    transport->is_dead = false;
    transport->handshaking = context != NULL;
    enum status status = STATUS_OK;
    if (context != NULL) {
        status = tls_session_open(context, fd, host, &transport->tls);
    }
    if (status == STATUS_OK) {
        status = loop_add(loop, &transport->source);
    }
    if (status != STATUS_OK) {
        tls_session_close(&transport->tls, false);
        tcp_close(&transport->source.fd);
    }
    return status;
}

void transport_note(struct transport *transport, uint32_t events)
{
    transport->can_read |= (events & LOOP_READABLE) != 0;
    transport->can_write |= (events & LOOP_WRITABLE) != 0;
    transport->hung_up |= (events & LOOP_HANGUP) != 0;
    transport->is_dead |= (events & LOOP_BROKEN) != 0;
}

enum status transport_handshake(struct transport *transport)
{
    if (!transport->handshaking) {
        return STATUS_OK;
    }
    enum status status = tls_handshake(transport->tls);
    if (status == STATUS_OK) {
        transport->handshaking = false;
        // Bytes behind the handshake may have come with it, without a further event.
        transport->can_read = true;
        transport->can_write = true;
    }
    return status;
}

enum status transport_read(struct transport *transport, void *bytes, size_t capacity, size_t *size)
{
    enum status status = transport->tls != NULL
                             ? tls_read(transport->tls, bytes, capacity, size)
                             : tcp_read(transport->source.fd, bytes, capacity, size);
    // A plain socket that did not fill the space is empty: later bytes are a new edge.
    bool is_empty =
        status == STATUS_OK && transport->tls == NULL && *size < capacity && !transport->hung_up;
    if (status == STATUS_AGAIN || is_empty) {
        transport->can_read = false;
    }
    return status;
}

static enum status write_record(struct transport *transport, const struct slice *slices,
                                uint32_t slice_count, size_t *size)
{
    uint8_t record[record_size_max];
    size_t filled = 0;

    while (slice_count > 1 && slices[0].size == 0) {
        slices++;
        slice_count--;
    }
    while (slice_count > 1 && slices[slice_count - 1].size == 0) {
        slice_count--;
    }
    if (slice_count == 1) {
        return tls_write(transport->tls, slices[0], size);
    }
    for (uint32_t i = 0; i < slice_count; i++) {
        size_t room = sizeof(record) - filled;
        size_t part = slices[i].size < room ? slices[i].size : room;
        if (part > 0) {
            memcpy(record + filled, slices[i].bytes, part);
        }
        filled += part;
    }
    return tls_write(transport->tls, slice_of(record, filled), size);
}

enum status transport_write(struct transport *transport, const struct slice *slices,
                            uint32_t slice_count, size_t *size)
{
    enum status status = transport->tls != NULL
                             ? write_record(transport, slices, slice_count, size)
                             : tcp_write(transport->source.fd, slices, slice_count, size);
    if (status == STATUS_AGAIN) {
        transport->can_write = false;
    }
    return status;
}

size_t transport_unsent(const struct transport *transport)
{
    int bytes = 0;
    return ioctl(transport->source.fd, SIOCOUTQ, &bytes) == -1 ? 0 : (size_t)bytes;
}

void transport_finish(struct transport *transport)
{
    if (transport->tls == NULL) {
        (void)shutdown(transport->source.fd, SHUT_WR);
    }
}

void transport_close(struct transport *transport, struct loop *loop, enum transport_end end)
{
    if (!transport_is_open(transport)) {
        return;
    }
    loop_remove(loop, &transport->source);
    tls_session_close(&transport->tls, end == TRANSPORT_ORDERLY && !transport->handshaking);
    if (end == TRANSPORT_ABORT) {
        tcp_abort_on_close(transport->source.fd);
    }
    tcp_close(&transport->source.fd);
}

const char *transport_why(const struct transport *transport)
{
    return transport->tls != NULL ? tls_why(transport->tls) : strerrordesc_np(errno);
}
