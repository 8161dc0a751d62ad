// SPDX-License-Identifier: Apache-2.0
//
// engine_metrics.h -- the load that an engine's metrics page reports.
//
// Knows the names of vLLM, SGLang, TensorRT-LLM, Triton and llama.cpp, old and new, in text and in
// JSON.  Series of one name are added up, and usages averaged (engine_page.h).
#pragma once

#include "feed/exposition.h"
#include "fleet/load.h"

// Fields that the page does not have are negative.  Series that name another data-parallel rank
// than `rank`, which may be exposition_all_ranks, are skipped.
void engine_metrics_read(struct slice page, uint32_t rank, struct load_report *out);
