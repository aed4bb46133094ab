"""Devices as TVM knows them: targets, and numbers as DLPack counts."""
