// SPDX-License-Identifier: Apache-2.0
//
// Reading a request from an HTTP/1.1 connection.
//
// The body is held until the response begins, for two reasons: routing reads all of it, and another
// backend may have to get it.  It stays behind its head in the client's buffer if it fits there,
// and moves to a block otherwise.

#include "base/base.h"
#include "exchange/client.h"
#include "exchange/request.h"

enum status client_read_head(struct client *client, struct request *request)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = http_head_feed(&request->head, buffer_slice(&client->in));
        if (status != STATUS_AGAIN) {
            break;
        }
        status = client_fill(client);
    }
    if (status == STATUS_OK) {
        request->in_used = request->head.size;
    }
    return status;
}

bool client_has_body_bytes(const struct client *client, const struct request *request)
{
    return client->in.end > request->in_used;
}

bool client_skip_body(const struct client *client, struct request *request)
{
    const struct http_head *head = &request->head;

    if (head->size == 0 || head->framing != HTTP_LENGTH || request->block.bytes != NULL ||
        head->content_length > client->in.end - head->size) {
        return false;
    }
    request->in_used = head->size + (uint32_t)head->content_length;
    return true;
}

void client_skip_request(struct client *client, const struct request *request)
{
    struct buffer *in = &client->in;

    ASSERT(request->in_used <= in->end);
    uint32_t left = in->end - request->in_used;
    if (left == 0) {
        buffer_put(client->worker, in);
    } else {
        memmove(in->bytes, in->bytes + request->in_used, left);
        in->end = left;
    }
}

// The bytes in the block so far.
static size_t block_used(const struct request *request)
{
    return request->body_size + request->trailer_size;
}

// Moves the bytes behind the head into a block.  The block grows with the bytes that arrive, not
// with the announced length: a promise of many megabytes must not keep others out.
static bool block_begin(struct client *client, struct request *request)
{
    const struct worker *worker = client->worker;
    size_t here = client->in.end - request->head.size;

    if (!body_store_take(&client->worker->bodies, worker->buffer_size, &request->block)) {
        return false;
    }
    memcpy(request->block.bytes, client->in.bytes + request->head.size, here);
    client->in.end = request->head.size;
    return true;
}

// Makes sure that the block has room for at least one byte more.
static enum status block_grow(struct client *client, struct request *request)
{
    struct body_store *bodies = &client->worker->bodies;
    size_t used = block_used(request);

    ASSERT(used <= request->block.capacity);
    if (used < request->block.capacity) {
        return STATUS_OK;
    }
    if (used >= bodies->sizes[body_class_count - 1]) {
        return STATUS_TOO_LARGE;
    }
    return body_store_grow(bodies, &request->block, used, used + 1) ? STATUS_OK : STATUS_EXHAUSTED;
}

// Reads at most `most` bytes behind those in the block.  After some reads others have their turn.
static enum status block_read(struct client *client, struct request *request, unsigned turn,
                              size_t most, size_t *size)
{
    if (turn == client_reads_per_turn) {
        client_again(client);
        return STATUS_AGAIN;
    }
    enum status status = block_grow(client, request);
    if (status != STATUS_OK) {
        return status;
    }
    size_t used = block_used(request);
    size_t room = request->block.capacity - used;
    return client->transport.can_read
               ? transport_read(&client->transport, request->block.bytes + used,
                                room < most ? room : most, size)
               : STATUS_AGAIN;
}

// A body that fits behind its head.
static enum status read_in_place(struct client *client, struct request *request, bool *moved)
{
    size_t wanted = request->head.content_length;

    while (client->in.end - request->head.size < wanted) {
        enum status status = client_fill(client);
        if (status != STATUS_OK) {
            return status;
        }
        *moved = true;
    }
    request->body = client->in.bytes + request->head.size;
    request->body_size = wanted;
    request->in_used = (uint32_t)(request->head.size + wanted);
    return STATUS_OK;
}

static enum status read_length(struct client *client, struct request *request, bool *moved)
{
    size_t wanted = request->head.content_length;

    if (request->block.bytes == NULL) {
        if (request->head.size + wanted <= client->worker->buffer_size) {
            return read_in_place(client, request, moved);
        }
        // All that came with the head is body, since the body is longer than the buffer.
        size_t here = client->in.end - request->head.size;
        if (!block_begin(client, request)) {
            return STATUS_EXHAUSTED;
        }
        request->body_size = here;
    }
    for (unsigned turn = 0; request->body_size < wanted; turn++) {
        size_t size = 0;
        enum status status = block_read(client, request, turn, wanted - request->body_size, &size);
        if (status != STATUS_OK) {
            return status;
        }
        *moved = true;
        request->body_size += size;
    }
    request->body = request->block.bytes;
    return STATUS_OK;
}

// Scans `size` new bytes at the end of the block.  Bytes after the body go back into the client's
// buffer.
static enum status scan_chunks(struct client *client, struct request *request, size_t size)
{
    size_t used = 0;
    size_t kept = 0;
    uint8_t *bytes = request->block.bytes + block_used(request);
    enum status status = chunked_scan(&request->chunks, bytes, size, &used, &kept);
    size_t total = block_used(request) + kept;

    request->body_size = request->chunks.data_size;
    // An announced chunk counts as well: it is refused before it is sent.
    uint64_t most = client->worker->body_size_max;
    if (request->body_size > most || chunked_left(&request->chunks) > most - request->body_size) {
        return STATUS_TOO_LARGE;
    }
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        return status;
    }
    request->trailer_size = (uint32_t)(total - request->body_size);
    if (status == STATUS_OK && used < size) {
        memcpy(client->in.bytes + request->head.size, bytes + used, size - used);
        client->in.end = request->head.size + (uint32_t)(size - used);
    }
    return status;
}

// A chunked body always goes to a block: its length is not known before its end.
static enum status read_chunks(struct client *client, struct request *request, bool *moved)
{
    // Bytes after the end of the body go back behind the head, and must fit there.
    size_t portion = client->worker->buffer_size - request->head.size;
    enum status status = STATUS_AGAIN;

    if (request->block.bytes == NULL) {
        size_t here = client->in.end - request->head.size;
        if (!block_begin(client, request)) {
            return STATUS_EXHAUSTED;
        }
        status = here > 0 ? scan_chunks(client, request, here) : STATUS_AGAIN;
    }
    for (unsigned turn = 0; status == STATUS_AGAIN; turn++) {
        size_t size = 0;
        status = block_read(client, request, turn, portion, &size);
        if (status != STATUS_OK) {
            return status;
        }
        *moved = true;
        status = scan_chunks(client, request, size);
    }
    request->body = request->block.bytes;
    return status;
}

enum status client_read_body(struct client *client, struct request *request, bool *moved)
{
    ASSERT(request->head.size > 0 && request->head.framing != HTTP_NO_BODY);
    *moved = false;
    return request->head.framing == HTTP_LENGTH ? read_length(client, request, moved)
                                                : read_chunks(client, request, moved);
}
