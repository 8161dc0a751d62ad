// SPDX-License-Identifier: Apache-2.0
//
// path.h -- one spelling for all paths that a server may take for the same.
//
// Servers decode percent signs, fold slashes and resolve dots before they route, so a comparison
// that blocks paths must do so too.  Used for comparing only: requests are forwarded as they came.
#pragma once

#include "base/slice.h"

enum { http_path_size_max = 2048 };

// Decodes %XX once, drops empty and `.` segments, lets `..` take one back, and cuts each segment at
// its `;`.  "/a//b/%2e%2E/./c;v=1/" is "/a/c".  The result lies in `space`; what does not fit is
// cut, and then longer than any path to compare with.
struct slice http_path_plain(struct slice path, uint8_t space[http_path_size_max]);
