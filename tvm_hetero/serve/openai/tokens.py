"""``POST /tokenize`` and ``POST /detokenize``: what a text is in tokens, as vLLM tells it."""

from __future__ import annotations

from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.handler import OpenAiHandler, off_loop
from tvm_hetero.serve.openai.prompts import encode, make_chat_prompt, texts_of
from tvm_hetero.serve.openai.schemas import DetokenizeFields, TokenizeFields
from tvm_hetero.serve.openai.settings import check_tokens


class Tokenize(OpenAiHandler):
    """The tokens of a text or of a chat."""

    async def post(self) -> None:
        """Answer."""
        fields = self.read(TokenizeFields)
        _, model = self.find_decoder(fields.model)

        def tokenize() -> tuple[int, ...]:
            if fields.prompt is not None and fields.messages is None:
                special = fields.add_special_tokens is not False
                return encode(model, fields.prompt, "prompt", special=special)
            if fields.messages is not None and fields.prompt is None:
                return make_chat_prompt(model, fields.messages).tokens
            raise InvalidRequestError("expected a prompt or messages", "prompt")

        tokens = await self.attend(off_loop(len(self.body), tokenize))
        self.answer({"tokens": tokens, "count": len(tokens), "max_model_len": model.length})


class Detokenize(OpenAiHandler):
    """The text of some tokens."""

    async def post(self) -> None:
        """Answer."""
        fields = self.read(DetokenizeFields)
        _, model = self.find_decoder(fields.model)
        texts = texts_of(model, "tokens")
        check_tokens(fields.tokens, model, "tokens")
        text = await self.attend(
            off_loop(len(self.body), lambda: texts.tokenizer.decode(fields.tokens))
        )
        self.answer({"prompt": text})
