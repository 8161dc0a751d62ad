// SPDX-License-Identifier: Apache-2.0
//
// nfc.h -- Unicode normalization form C, with the data of Unicode 9.0.
//
// Tokenizers has the same version: younger characters stay as they are.  The build writes the
// tables (tools/nfc_tables.py).
#pragma once

#include "base/slice.h"
#include "base/status.h"

// How many leading bytes stay as they are, such that the rest can be normalized without them: all
// bytes of nearly every text, in one fast pass.  Reads nothing behind the text, UTF-8 or not.
size_t nfc_clean_prefix(struct slice text);

// The largest size that a text of that size can get.
size_t nfc_bound(size_t size);

// `text` is valid UTF-8.  *out is `text` itself when it is in normal form, and lies in `buffer`
// otherwise.  TOO_LARGE: the buffer is too small; nfc_bound is always enough.
enum status nfc_normalize(struct slice text, void *buffer, size_t capacity, struct slice *out);
