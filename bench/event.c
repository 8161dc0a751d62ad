// SPDX-License-Identifier: Apache-2.0

#include "event.h"

void event_read(struct event_reader *reader, struct slice data,
                void (*came)(void *owner, uint64_t written_ns, uint32_t stream), void *owner)
{
    while (data.size > 0) {
        uint32_t at = (uint32_t)(reader->size % event_size);
        size_t taken = event_size - at < data.size ? event_size - at : data.size;
        if (at == 0) {
            reader->written_ns = 0;
            reader->stream = 0;
        }
        // Behind the digits nothing is of interest.
        uint32_t end = event_stream_offset + event_stream_digits;
        for (size_t i = 0; i < taken && at + i < end; i++) {
            uint32_t place = at + (uint32_t)i;
            uint32_t digit = (uint32_t)(data.bytes[i] - '0');
            if (place - event_time_offset < event_time_digits) {
                reader->written_ns = reader->written_ns * 10 + digit;
            } else if (place - event_stream_offset < event_stream_digits) {
                reader->stream = reader->stream * 10 + digit;
            }
        }
        reader->size += taken;
        if (at + taken == event_size) {
            came(owner, reader->written_ns, reader->stream);
        }
        data = slice_of(data.bytes + taken, data.size - taken);
    }
}
