"""A stand-in that tokenizes as vLLM does, with vLLM's libraries: tokenizers and jinja2.

    engine = standin("a", models=["m"])
    speak(engine, Dialect(directory))

serves POST /tokenize and /v1/chat/completions/render, and chats and completions with a real usage.
It also makes the files of a small model: a vocabulary that tokenizers learns from a few lines of
text, and a template.
"""
import functools
import json
import pathlib
import sys

import tokenizers
from standin import event, json_response
from standin import SSE_HEAD, chunk, LAST_CHUNK

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import render  # noqa: E402

MARKERS = ["<|im_start|>", "<|im_end|>", "<s>"]
TEMPLATE = """{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + ('' if not message.name else ' ' + message.name) + '\\n' }}
    {%- if message.reasoning_content %}{{ '<think>' + message.reasoning_content + '</think>' }}{% endif %}
    {{- message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n' + call.function.name + ' ' + (call.function.arguments | tojson) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think></think>' }}{% endif %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def make_model(directory, template=TEMPLATE, text=None):
    """Writes tokenizer.json and tokenizer_config.json."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    sample = text or (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
    tokenizer.train_from_iterator(sample.splitlines(), trainer)
    tokenizer.add_special_tokens(MARKERS)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": template}))
    return directory


class Refused(Exception):
    """A request that this stand-in has no rules for."""


def text_of(content):
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if any(part.get("type") != "text" for part in content):
        raise Refused("parts that are no text")
    return "\n".join(part["text"] for part in content if part["text"])


def prepared(message):
    """A message as the template sees it, with texts for content."""
    made = {"role": message["role"], "content": text_of(message.get("content"))}
    if message.get("name"):
        made["name"] = message["name"]
    if message["role"] == "tool" and "tool_call_id" in message:
        made["tool_call_id"] = message["tool_call_id"]
    if message["role"] == "assistant":
        thoughts = message.get("reasoning") or message.get("reasoning_content")
        if thoughts is not None:
            made["reasoning"] = made["reasoning_content"] = thoughts
        if message.get("tool_calls"):
            made["tool_calls"] = [called(call) for call in message["tool_calls"]]
    return made


def called(call):
    function = dict(call["function"])
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        function["arguments"] = json.loads(arguments) if arguments else {}
    elif arguments is None:
        function["arguments"] = {}
    return {**call, "function": function}


def modelled(tool):
    function = tool["function"]
    made = {"name": function["name"], "description": function.get("description"),
            "parameters": function.get("parameters")}
    if function.get("strict") is not None:
        made["strict"] = function["strict"]
    return {"type": tool["type"], "function": made}


class Dialect:
    def __init__(self, directory):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.source = json.loads((directory / "tokenizer_config.json").read_text())["chat_template"]
        self.template = render.ENVIRONMENT.from_string(self.source)
        self.encode = functools.lru_cache(maxsize=8)(self.encode_anew)

    def text(self, body):
        if any(key in body for key in ("reasoning_effort", "documents", "tool_choice")):
            raise Refused("a member without rules")
        if any(message["role"] == "developer" for message in body["messages"]):
            raise Refused("developers")
        kwargs = {key: value for key, value in (body.get("chat_template_kwargs") or {}).items()
                  if key == "enable_thinking"}
        tools = [modelled(tool) for tool in body["tools"]] if body.get("tools") else None
        return self.template.render(
            messages=[prepared(message) for message in body["messages"]], tools=tools, documents=None,
            add_generation_prompt=body.get("add_generation_prompt", True), bos_token="<s>", eos_token="<|im_end|>",
            **kwargs)

    def encode_anew(self, text, special):
        return tuple(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def ids(self, body):
        if "messages" in body:
            return list(self.encode(self.text(body), False))
        if isinstance(body["prompt"], list):
            return body["prompt"]
        return list(self.encode(body["prompt"], body.get("add_special_tokens", True)))


def speak(engine, dialect, off_by=0, said="x", paths=("/tokenize", "/v1/chat/completions/render")):
    """Scripts the engine.  `off_by` is added to the token counts that it reports."""
    def tokens(request, key="tokens"):
        try:
            ids = dialect.ids(request.json())
        except Refused as why:
            return [json_response(400, {"error": {"message": str(why)}})]
        return [json_response(200, {key: ids, "count": len(ids), "max_model_len": 32768})]

    def generate(request):
        body = request.json()
        count = len(dialect.ids(body)) + off_by
        usage = {"prompt_tokens": count, "completion_tokens": 1, "total_tokens": count + 1}
        if body.get("stream"):
            encoding = dialect.tokenizer.encode(said, add_special_tokens=False)
            pieces = [said[begin:end] for begin, end in encoding.offsets]
            events = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}]
            events += [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
            events += [{"choices": [], "usage": usage}, b"[DONE]"]
            return [SSE_HEAD, *(chunk(event(value)) for value in events), LAST_CHUNK]
        choice = {"index": 0, "text": said, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return [json_response(200, {"choices": [choice], "usage": usage})]

    if "/tokenize" in paths:
        engine.respond("/tokenize", tokens)
    if "/v1/chat/completions/render" in paths:
        engine.respond("/v1/chat/completions/render", lambda request: tokens(request, "token_ids"))
    engine.respond("/v1/chat/completions", generate)
    engine.respond("/v1/completions", generate)
    return dialect
