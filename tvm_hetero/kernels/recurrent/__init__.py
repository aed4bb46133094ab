"""LSTM, GRU and RNN: all steps of a sequence in one kernel for each direction."""
