// SPDX-License-Identifier: Apache-2.0
//
// backends_api.h -- the paths of the admin API that show backends and change them.
//
// A change is in force when the response is sent.  It is kept in memory only: a restart forgets it.
#pragma once

#include "admin/admin_call.h"

// All backends, and one.
admin_handler backends_api_list;
admin_handler backends_api_show;

// {"url": …, "weight": 1, "pool": …, "models": […]}
admin_handler backends_api_add;

// {"weight": n}
admin_handler backends_api_change;

// Requests in flight to it are not interrupted.
admin_handler backends_api_remove;

// {"url": …}: a DNS name that is not resolved yet has no backend, hence no id.
admin_handler backends_api_remove_url;

// A draining backend gets no new requests; ready ends that.
admin_handler backends_api_drain;
admin_handler backends_api_ready;
