#ifndef STAGECOACH_CLIENT_OUTPUT_TABLE_H_
#define STAGECOACH_CLIENT_OUTPUT_TABLE_H_

#include <string>
#include <vector>

namespace stagecoach::client {

// Text in columns, for people. Thread-compatible.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns; missing ones stay blank.
  void AddRow(std::vector<std::string> cells);
  // The same, set off by a rule.
  void AddTotal(std::vector<std::string> cells);

  // Title line and rows, each ending with a newline and no blanks before it.
  std::string Render() const;

 private:
  std::string RenderRow(const std::vector<std::string>& cells,
                        const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  size_t first_total_ = static_cast<size_t>(-1);
};

// Shorthands for the columns above.
Table::Column Left(std::string title);
Table::Column Right(std::string title);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_TABLE_H_
