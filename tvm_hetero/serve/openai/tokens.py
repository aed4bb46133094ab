"""``/tokenize``, ``/detokenize``, ``/tokenizer_info``: what a text is in tokens, as vLLM tells it.

vLLM answers them without the key; here they are behind it, as all that makes the server work.
"""

from __future__ import annotations

from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.handler import OpenAiHandler, off_loop
from tvm_hetero.serve.openai.prompts import encode, make_chat_prompt, texts_of
from tvm_hetero.serve.openai.schemas import DetokenizeFields, TokenizeFields
from tvm_hetero.serve.openai.settings import check_tokens


class _TokensHandler(OpenAiHandler):
    def find_tokenizing(self, name: str | None) -> DecoderModel:
        """The decoder of a name, or the only one."""
        if name is None:
            every = [name for name, each in self.context.repository if each.model
                     and each.model.decoder]  # fmt: skip
            if len(every) != 1:
                raise InvalidRequestError(
                    f"model is missing, and there are {len(every)} decoders", "model"
                )
            name = every[0]
        return self.find_decoder(name)[1]


class Tokenize(_TokensHandler):
    """The tokens of a text or of a chat."""

    async def post(self) -> None:
        """Answer."""
        fields = self.read(TokenizeFields)
        model = self.find_tokenizing(fields.model)

        def tokenize() -> tuple[int, ...]:
            if fields.prompt is not None and fields.messages is None:
                special = fields.add_special_tokens is not False
                return encode(model, fields.prompt, "prompt", special=special)
            if fields.messages is not None and fields.prompt is None:
                return make_chat_prompt(model, fields.messages).tokens
            raise InvalidRequestError("expected a prompt or messages", "prompt")

        tokens = await self.attend(off_loop(len(self.body), tokenize))
        self.answer({"tokens": tokens, "count": len(tokens), "max_model_len": model.length})


class Detokenize(_TokensHandler):
    """The text of some tokens."""

    async def post(self) -> None:
        """Answer."""
        fields = self.read(DetokenizeFields)
        model = self.find_tokenizing(fields.model)
        texts = texts_of(model, "tokens")
        check_tokens(fields.tokens, model, "tokens")
        text = await self.attend(
            off_loop(len(self.body), lambda: texts.tokenizer.decode(fields.tokens))
        )
        self.answer({"prompt": text})


class TokenizerInfo(_TokensHandler):
    """What the tokenizer's settings say (``?model=NAME``)."""

    def get(self) -> None:
        """Special tokens, and the chat template."""
        texts = texts_of(self.find_tokenizing(self.get_query_argument("model", None)), "model")
        template = None if texts.chat is None else texts.chat.source
        self.answer({"tokenizer_class": "tokenizers", **texts.names, "chat_template": template})
