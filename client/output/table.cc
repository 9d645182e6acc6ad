#include "client/output/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach::client {
namespace {

constexpr size_t kGap = 2;

// Characters, not bytes: a job's name may be any UTF-8.
size_t WidthOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::AddTotal(std::vector<std::string> cells) {
  first_total_ = std::min(first_total_, rows_.size());
  AddRow(std::move(cells));
}

std::string Table::RenderRow(const std::vector<std::string>& cells,
                             const std::vector<size_t>& widths) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - WidthOf(cells[i]), ' ');
    if (i > 0) line.append(kGap, ' ');
    if (columns_[i].align == Align::kRight) {
      absl::StrAppend(&line, padding, cells[i]);
    } else {
      absl::StrAppend(&line, cells[i], padding);
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Table::Render() const {
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    widths.push_back(WidthOf(columns_[i].title));
    for (const auto& row : rows_) {
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  std::string text = RenderRow(titles, widths);
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i == first_total_) {
      const size_t width = std::accumulate(widths.begin(), widths.end(),
                                           kGap * (widths.size() - 1));
      absl::StrAppend(&text, std::string(width, '-'), "\n");
    }
    absl::StrAppend(&text, RenderRow(rows_[i], widths));
  }
  return text;
}

Table::Column Left(std::string title) {
  return {std::move(title), Table::Align::kLeft};
}

Table::Column Right(std::string title) {
  return {std::move(title), Table::Align::kRight};
}

}  // namespace stagecoach::client
