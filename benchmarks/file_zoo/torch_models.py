"""Models of transformers with random weights, small but built as the real ones are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]
_TOKENS, _VOCABULARY = 64, 1000
_SIZES: dict[str, Any] = {
    "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 1024,
}  # fmt: skip
_TEXT = {**_SIZES, "vocab_size": _VOCABULARY}
_IMAGE = {**_SIZES, "image_size": 128}


class Only(nn.Module):
    """A model's first output (or those named), of positional inputs called as it calls them."""

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *arrays: torch.Tensor) -> Any:
        found = self.model(**dict(zip(self.inputs, arrays, strict=True)))
        return tuple(getattr(found, name) for name in self.outputs)


class WithPast(nn.Module):
    """One decoding step: a token and the keys and values of those before."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: torch.Tensor, *past: torch.Tensor) -> Any:
        pairs = [(past[i], past[i + 1]) for i in range(0, len(past), 2)]
        cache = hf.DynamicCache(pairs)
        found = self.model(input_ids=token, past_key_values=cache)
        layers = found.past_key_values.layers
        return (found.logits, *(t for layer in layers for t in (layer.keys, layer.values)))


def _tokens(count: int = _TOKENS) -> torch.Tensor:
    return torch.randint(5, _VOCABULARY, (1, count))


def _image(size: int = 128) -> torch.Tensor:
    return torch.randn(1, 3, size, size)


def _text(kind: Any, config: Any, output: str = "last_hidden_state") -> Made:
    model = kind(config)
    return Only(model, ("input_ids", "attention_mask"), (output,)), (
        _tokens(), torch.ones(1, _TOKENS, dtype=torch.int64)
    )  # fmt: skip


def vision(model: Any, *outputs: str, size: int = 128) -> Made:
    """A model of images, and one of `size` by `size` pixels."""
    return Only(model, ("pixel_values",), outputs or ("last_hidden_state",)), (_image(size),)


def _gpt2_past() -> Made:
    config = hf.GPT2Config(n_embd=256, n_layer=3, n_head=4, vocab_size=_VOCABULARY)
    past = [torch.randn(1, 4, 32, 64) for _ in range(6)]
    return WithPast(hf.GPT2LMHeadModel(config)), (_tokens(1), *past)


def _t5() -> Made:
    config = hf.T5Config(d_model=256, d_ff=1024, num_layers=3, num_heads=4, vocab_size=_VOCABULARY)
    return _text(hf.T5EncoderModel, config)


def _detr() -> Made:
    config = hf.YolosConfig(**{**_IMAGE, "image_size": [128, 128]})
    return vision(hf.YolosForObjectDetection(config), "logits", "pred_boxes")


def _mobilenet() -> Made:
    return vision(hf.MobileNetV2ForImageClassification(hf.MobileNetV2Config()), "logits", size=224)


def _resnet() -> Made:
    config = hf.ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])
    return vision(hf.ResNetForImageClassification(config), "logits", size=224)


def _whisper() -> Made:
    config = hf.WhisperConfig(
        d_model=256, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=1024,
        decoder_attention_heads=4, max_source_positions=500, num_mel_bins=80,
    )  # fmt: skip
    encoder = hf.WhisperModel(config).get_encoder()
    return Only(encoder, ("input_features",), ("last_hidden_state",)), (torch.randn(1, 80, 1000),)


def _detr_real() -> Made:
    backbone = hf.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], out_features=["stage4"]
    )
    config = hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone,
        backbone=None, d_model=128, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=256,
        decoder_ffn_dim=256, encoder_attention_heads=4, decoder_attention_heads=4, num_queries=20,
    )  # fmt: skip
    return vision(hf.DetrForObjectDetection(config), "logits", "pred_boxes", size=224)


def _wav2vec2() -> Made:
    model = hf.Wav2Vec2Model(hf.Wav2Vec2Config(**_SIZES))
    return Only(model, ("input_values",), ("last_hidden_state",)), (torch.randn(1, 8000),)


def _causal(kind: Any, config: Any) -> Made:
    return Only(kind(config), ("input_ids",), ("logits",)), (_tokens(),)


def _clip_text() -> Made:
    return _text(hf.CLIPTextModel, hf.CLIPTextConfig(**_TEXT, max_position_embeddings=77))


def _dpt() -> Made:
    config = hf.DPTConfig(
        **{**_IMAGE, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[32, 64, 128, 128], fusion_hidden_size=64,
    )  # fmt: skip
    return vision(hf.DPTForDepthEstimation(config), "predicted_depth")


MODELS: dict[str, Callable[[], Made]] = {
    "bert": lambda: _text(hf.BertModel, hf.BertConfig(**_TEXT)),
    "distilbert": lambda: _text(
        hf.DistilBertModel, hf.DistilBertConfig(dim=256, n_layers=3, n_heads=4, vocab_size=1000)
    ),
    "albert": lambda: _text(hf.AlbertModel, hf.AlbertConfig(**_TEXT)),
    "deberta": lambda: _text(
        hf.DebertaV2Model,
        hf.DebertaV2Config(**_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    ),
    "modernbert": lambda: _text(hf.ModernBertModel, hf.ModernBertConfig(
        **_TEXT, pad_token_id=0, eos_token_id=1, bos_token_id=1, cls_token_id=1, sep_token_id=1,
    )),
    "t5-encoder": _t5,
    "gpt2-past": _gpt2_past,
    "llama": lambda: _causal(
        hf.LlamaForCausalLM, hf.LlamaConfig(**_TEXT, num_key_value_heads=2, use_cache=False)
    ),
    "vit": lambda: vision(hf.ViTModel(hf.ViTConfig(**_IMAGE))),
    "dinov2": lambda: vision(hf.Dinov2Model(hf.Dinov2Config(**_IMAGE, patch_size=16))),
    "clip-text": _clip_text,
    "clip-vision": lambda: vision(hf.CLIPVisionModel(hf.CLIPVisionConfig(**_IMAGE))),
    "swin": lambda: vision(
        hf.SwinModel(hf.SwinConfig(image_size=224, embed_dim=48, depths=[2, 2, 2, 2])), size=224
    ),
    "segformer": lambda: vision(
        hf.SegformerForSemanticSegmentation(hf.SegformerConfig()), "logits", size=224
    ),
    "convnext": lambda: vision(
        hf.ConvNextModel(hf.ConvNextConfig(depths=[2, 2, 2, 2], hidden_sizes=[48, 96, 192, 384])),
        size=224,
    ),
    "mobilevit": lambda: vision(hf.MobileViTModel(hf.MobileViTConfig()), size=256),
    "yolos": _detr,
    "dpt": _dpt,
    "detr": _detr_real,
    "wav2vec2": _wav2vec2,
    "whisper-encoder": _whisper,
    "mamba": lambda: _causal(hf.MambaForCausalLM, hf.MambaConfig(
        hidden_size=128, num_hidden_layers=2, vocab_size=_VOCABULARY, use_cache=False,
    )),
    "mobilenet-v2": _mobilenet,
    "resnet": _resnet,
    "efficientnet": lambda: vision(
        hf.EfficientNetModel(hf.EfficientNetConfig(
            width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280,
        )),
        size=224,
    ),
}  # fmt: skip
