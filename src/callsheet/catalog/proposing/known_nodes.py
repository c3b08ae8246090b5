"""The number of outputs of nodes of ComfyUI itself and of Lightbox, where it never changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_BY_COUNT: Mapping[int, str] = {
    0: "PreviewImage SaveImage",
    1: """
        CLIPLoader CLIPSetLastLayer CLIPTextEncode CLIPVisionEncode CLIPVisionLoader ConditioningCombine ControlNetApply
        ControlNetLoader CreateVideo DualCLIPLoader EmptyAudio EmptyImage EmptyLatentImage ImageBlend ImageBlur
        ImageCompositeMasked ImageCrop ImageFlip ImageInvert ImageScale ImageScaleBy ImageSharpen ImageUpscaleWithModel
        InvertMask KSampler KSamplerAdvanced LatentUpscale LatentUpscaleBy LightboxColorGrade LightboxFirstFrame
        LightboxOverlay LightboxTextOverlay LightboxTextToImage LightboxVideoSpeed LoadAudio LoadImageMask LoadVideo
        LoraLoaderModelOnly MaskToImage PrimitiveString RepeatImageBatch SetLatentNoiseMask UNETLoader
        UpscaleModelLoader VAEDecode VAEEncode VAEEncodeForInpaint VAELoader
    """,
    2: "ControlNetApplyAdvanced LoadImage LoraLoader",
    3: "CheckpointLoaderSimple GetVideoComponents",
}
OUTPUTS: Mapping[str, int] = MappingProxyType(
    {class_type: count for count, names in _BY_COUNT.items() for class_type in names.split()}
)
# Highest number of outputs of a node that is not listed above. The largest known nodes have some dozens.
MAX_OUTPUTS = 500
