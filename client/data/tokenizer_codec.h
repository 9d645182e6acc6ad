#ifndef STAGECOACH_CLIENT_DATA_TOKENIZER_CODEC_H_
#define STAGECOACH_CLIENT_DATA_TOKENIZER_CODEC_H_

#include <memory>

#include "client/data/tokenizer_process.h"
#include "client/text_codec.h"

namespace stagecoach::client {

// Tokens of a Hugging Face tokenizer. A prompt begins with the special tokens
// that the tokenizer says; special ones among those that follow have no text.
std::unique_ptr<TextCodec> NewTokenizerCodec(
    std::unique_ptr<TokenizerProcess> tokenizer);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_TOKENIZER_CODEC_H_
