"""Files for texts: copied into a decoder's folder, and found beside the model of older ones."""

from __future__ import annotations

from tvm_hetero.decoders.text_files import TEXT_FILES, copy_text_files, folder_of_texts


def test_what_a_model_has_is_copied_and_found_in_the_decoders_own_folder(tmp_path):
    model, decoder = tmp_path / "model", tmp_path / "decoder"
    model.mkdir()
    decoder.mkdir()
    source = {"path": str(model)}
    for name in TEXT_FILES[:2]:
        (model / name).write_text(name)
    assert folder_of_texts(decoder, source) == model  # an older one, which has none
    copy_text_files(model, decoder)
    assert sorted(path.name for path in decoder.iterdir()) == sorted(TEXT_FILES[:2])
    assert folder_of_texts(decoder, source) == decoder
    assert folder_of_texts(tmp_path / "other", {}) == tmp_path / "other"
