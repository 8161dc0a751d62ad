// SPDX-License-Identifier: Apache-2.0
//
// preview.h -- whether the first bytes of a response show output, before any of them goes to the
// client.
//
// A faulty engine may refuse behind a 200: by an empty body, or by a stream of a role and an error.
// Once the 200 has gone to the client, another backend can no longer be asked.  So the response of
// a suspect backend (fleet/refusals.h) waits until it shows output or ends without any.  A refusal
// by status waits for its end, so that it can be kept while another backend is asked.
#pragma once

#include "api/prompt.h"
#include "base/slice.h"

struct http_head;
struct worker;

enum preview {
    PREVIEW_MORE,    // not yet
    PREVIEW_OUTPUT,  // or it cannot be told
    PREVIEW_NOTHING, // the response is complete and has none
};

enum {
    // A response without output for so long passes on as it is: comments keep its client waiting.
    preview_wait_ms = 5000,
};

// `body` is all that has come behind the head, framing included; it stays as it is.  The head's
// framing is known, and is not HTTP_UNTIL_CLOSE.
enum preview preview_response(struct worker *worker, enum prompt_api api,
                              const struct http_head *head, struct slice body);
