#ifndef STAGECOACH_CLIENT_DATA_TOKENIZER_CHILD_H_
#define STAGECOACH_CLIENT_DATA_TOKENIZER_CHILD_H_

namespace stagecoach::client {

// The text of tokenizer_child.py.
extern const char kTokenizerChild[];

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_TOKENIZER_CHILD_H_
