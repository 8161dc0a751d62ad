// SPDX-License-Identifier: Apache-2.0

#include "api/output.h"

// A role alone is not an answer yet: an error may follow.
void output_note(struct output *output, enum prompt_api api, const struct response_event *event)
{
    bool has_choices = api == PROMPT_CHAT || api == PROMPT_COMPLETION;
    bool is_more = has_choices ? event->has_token : event->has_output;

    // A response in the background begins with an empty list.
    output->has_choice |= event->has_output || event->has_list;
    output->has_error |= event->is_error;
    output->has_usage |= event->usage.has_prompt_tokens;
    output->has_answer |= !event->is_error && (is_more || event->usage.completion_tokens > 0);
}

bool output_is_given(const struct output *output)
{
    bool is_whole = output->has_choice || output->has_usage;
    return output->has_answer || (is_whole && !output->has_error);
}
